"""S2: what reviewers say of who injected a defect, in whichever form they report it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from loopkit.engine.events import Decided
from loopkit.engine.findings import Report
from tests.support import PASS, Desk, Played, scenario

MACHINE = """
loopkit: 1
origins: [planning, design, code]
agents:
  planner: {model: some/planner}
  designer: {model: some/designer}
  coder: {model: some/coder}
  critic: CRITIC
validators:
  review: RULE
states:
  planning: {agent: planner, prompt: Plan., output: plan, on_error: {content: failed}, next: design}
  design: {agent: designer, prompt: "Design {{ plan }}.", output: spec, next: judge}
  judge:
    validate: spec
    by: [review]
    transitions:
      - {guard: valid, target: code}
      - {guard: incomplete, target: asked}
      - {revise: {origin: [planning, design]}, feedback: "{% for f in findings %}{{ f.message }} {% endfor %}"}
      - {target: asked}
  code: {agent: coder, prompt: "Code {{ spec }}.", output: source, on_error: {content: failed}, next: done}
  asked: {human: Take it?, show: [spec, report], choices: [yes_, no_], next: failed}
  done: {final: success}
  failed: {final: failure}
"""  # noqa: E501 - one transition a line
TYPED = """
    model: some/critic
    schema:
      assessment: PASS|FAIL
      issues: [{text: str, phase: optional Planning|Design|Code|Both}]
"""
MAPPED = """
    judge: critic
    map:
      verdict: assessment
      verdicts: {PASS: pass, FAIL: fail}
      findings: issues
      message: text
      origin: phase
      origins: {Planning: planning, Design: design, Code: code, Both: [planning, design]}
"""
OWN = "{judge: critic}"


def play(
    desk: Desk,
    *critic: Any,
    rule: str = MAPPED,
    agent: str = TYPED,
    declared: str = "[planning, design, code]",
) -> Played:
    agents = {
        "planner": ["plan 1", "plan 2", "plan 3"],
        "designer": ["spec 1", "spec 2", "spec 3"],
        "coder": ["code"],
        "critic": list(critic),
    }
    machine = MACHINE.replace("CRITIC", agent).replace("RULE", rule)
    machine = machine.replace("[planning, design, code]", declared)
    machine = machine.replace("[planning, design]}", f"{declared.replace(', code', '')}}}")
    return desk.play(machine, scenario(agents=agents))


def issue(text: str, phase: Any) -> dict[str, Any]:
    return {"text": text, "phase": phase}


def said(word: str, *issues: dict[str, Any]) -> dict[str, Any]:
    return {"data": {"assessment": word, "issues": list(issues)}}


def told(played: Played) -> list[tuple[str, str]]:
    return [(f.to, f.text.strip()) for event in played.of(Decided) for f in event.feedback]


def origins(report: Report) -> list[tuple[tuple[str, ...], bool]]:
    return [(one.origins, one.defaulted) for one in report.findings]


def test_an_issue_goes_to_the_phase_that_the_report_names(desk: Desk) -> None:
    """S2.5: to the earliest one, with its issues; those of a later one wait for it."""
    found = said("FAIL", issue("No API.", "Design"), issue("No unit.", "Planning"))
    played = play(desk, found, said("PASS"))
    assert origins(played.reports[0]) == [(("design",), False), (("planning",), False)]
    assert told(played) == [("planning", "No unit."), ("design", "No API.")]
    assert played.outcome == "done"


def test_an_issue_of_both_phases_is_routed_to_each_of_them_once(desk: Desk) -> None:
    """S2.3: and is one finding in the report."""
    played = play(desk, said("FAIL", issue("They differ.", "Both")), said("PASS"))
    assert origins(played.reports[0]) == [(("planning", "design"), False)]
    assert told(played) == [("planning", "They differ."), ("design", "They differ.")]


@pytest.mark.parametrize("phase", [None, ""], ids=["null", "blank"])
def test_an_issue_that_names_no_phase_falls_to_the_author_and_is_marked(
    desk: Desk, phase: str | None
) -> None:
    """S2.6: by the most recent phase, and nobody is asked again."""
    rule = MAPPED.replace("judge: critic", "judge: critic\n    prompt: Judge.")
    critic = [said("FAIL", issue("Odd.", phase)), said("PASS")]
    played = play(desk, *critic, rule=rule, agent="{model: some/critic}")
    assert origins(played.reports[0]) == [(("design",), True)]
    assert told(played) == [("design", "Odd.")]
    assert played.reports[0].findings[0].identified


def test_a_later_phase_is_the_authors_own(desk: Desk) -> None:
    played = play(desk, said("FAIL", issue("Untestable.", "Code")), said("PASS"))
    assert origins(played.reports[0]) == [(("design",), False)]


def test_an_undeclared_phase_is_the_reviewers_mistake(desk: Desk) -> None:
    """S2.1: it is asked again with the words that there are; its fail stands."""
    rule = MAPPED.replace("judge: critic", "judge: critic\n    prompt: Judge.")
    wrong = said("FAIL", issue("Odd.", "Deployment"))
    played = play(desk, [wrong, said("PASS")], rule=rule, agent="{model: some/critic}")
    asked = played.prompts("critic")[1]
    assert '"phase" of finding 1 must be one of "Planning", "Design", "Code", "Both"' in asked
    assert [finding.message for finding in played.reports[0].blocking] == ["Odd."]


def test_several_phases_may_be_listed(desk: Desk) -> None:
    rule = "{judge: critic, prompt: Judge., map: {findings: issues, message: text, origin: phases}}"
    critic = [
        {"data": {"issues": [{"text": "They differ.", "phases": ["design", "planning"]}]}},
        {"data": {"issues": []}},
    ]
    played = play(desk, *critic, rule=rule, agent="{model: some/critic}")
    assert origins(played.reports[0]) == [(("planning", "design"), False)]


def test_a_failed_check_may_name_the_phase_that_it_concerns(desk: Desk) -> None:
    """S2.32: what a check finds goes back like everything else."""
    rule = """
    judge: critic
    prompt: Judge.
    map:
      verdict: ok
      verdicts: {"true": pass, "false": fail}
      checks: {covered: {origin: planning}}
"""
    checked = [{"data": {"ok": True, "covered": covered}} for covered in (False, True)]
    played = play(desk, *checked, rule=rule, agent="{model: some/critic}")
    assert told(played) == [("planning", "The check `covered` is false.")]


# In our own form


def own(*findings: dict[str, Any], known: Any = None) -> dict[str, Any]:
    listed = [{"severity": "error", **finding} for finding in findings]
    more = {} if known is None else {"known": known}
    return {"data": {"verdict": "fail", "findings": listed, **more}}


def test_a_judge_is_asked_who_injected_each_defect(desk: Desk) -> None:
    """S2.1: one of the states up to the author of what it judges, or nobody."""
    found = own({"message": "No unit.", "origin": "planning"}, {"message": "Odd."})
    played = play(desk, found, PASS, rule=OWN, agent="{model: some/critic}")
    asked = played.asked("critic")[0]
    assert 'whose work has to change: "planning" or "design".' in asked.prompt
    item = asked.schema["properties"]["findings"]["items"]["properties"]
    assert item["origin"] == {"type": ["string", "null"], "enum": ["planning", "design", None]}
    assert origins(played.reports[0]) == [(("planning",), False), (("design",), True)]
    assert told(played)[0] == ("planning", "No unit.")


def test_a_judge_that_names_no_such_state_is_asked_again(desk: Desk) -> None:
    """S2.1: an undeclared name is the reviewer's mistake."""
    wrong = own({"message": "Odd.", "origin": "deployment"})
    played = play(desk, [wrong, PASS], rule=OWN, agent="{model: some/critic}")
    reason = '"origin" of finding 1 must be one of "planning", "design", "code", not "deployment"'
    assert reason in played.prompts("critic")[1]
    assert origins(played.reports[0]) == [(("design",), True)]


def test_nobody_is_asked_about_origins_that_are_no_choice(desk: Desk) -> None:
    played = play(desk, PASS, rule=OWN, agent="{model: some/critic}", declared="[design, code]")
    assert "origin" not in played.prompts("critic")[0]


def test_what_stays_open_keeps_its_origin_and_whether_somebody_named_it(desk: Desk) -> None:
    """S2.6: a default does not become a statement in the next round."""
    found = own({"message": "No unit.", "origin": "planning"}, {"message": "Odd."})
    first = play(desk, found, PASS, rule=OWN, agent="{model: some/critic}").reports[0]
    known = {finding.id: "open" for finding in first.findings}
    played = play(desk, found, own(known=known), PASS, rule=OWN, agent="{model: some/critic}")
    assert origins(played.reports[1]) == [(("planning",), False), (("design",), True)]


def test_the_origin_of_a_rule_holds_for_what_its_judge_leaves_open(desk: Desk) -> None:
    rule = "{judge: critic, origin: planning}"
    found = own({"message": "No unit."}, {"message": "No API.", "origin": "design"})
    played = play(desk, found, PASS, rule=rule, agent="{model: some/critic}")
    assert origins(played.reports[0]) == [(("planning",), False), (("design",), False)]


def test_a_program_may_report_who_injected_a_defect(desk: Desk) -> None:
    file = desk.write(
        "report.json", json.dumps(own({"message": "No unit.", "origin": "planning"})["data"])
    )
    rule = f"{{command: [cat, {file}], parse: report}}"
    played = play(desk, rule=rule, agent="{command: [none]}")
    assert origins(played.reports[0]) == [(("planning",), False)]
    assert told(played)[0][0] == "planning"


SILENT = "{judge: critic, prompt: Judge., map: {findings: issues}}"
BY_CHECK = "{judge: critic, prompt: Judge., map: {checks: {covered: {origin: planning}}}}"
PRINTED = "{command: [make], parse: report}"
PRINTED_SILENT = "{command: [make], parse: report, map: {findings: issues}}"


@pytest.mark.parametrize(
    ("rule", "is_dead"),
    [(OWN, False), (SILENT, True), (BY_CHECK, False), (PRINTED, False), (PRINTED_SILENT, True)],
    ids=["own", "silent-map", "check", "program", "silent-program"],
)
def test_an_edge_to_an_origin_that_no_report_can_name_is_dead(
    desk: Desk, rule: str, is_dead: bool
) -> None:
    machine = MACHINE.replace("CRITIC", "{model: some/critic}").replace("RULE", rule)
    dead = [p for p in desk.problems(machine) if p.code == "dead-transition"]
    assert ["`planning`" in problem.message for problem in dead] == ([True] if is_dead else [])


def test_each_phase_is_told_the_rest_of_its_items(desk: Desk) -> None:
    """S2.5: also where what is told is picked by origin."""
    feedback = "{% for f in findings %}{{ f.message }} {{ f.item.phase }}{% endfor %}"
    machine = MACHINE.replace("{% for f in findings %}{{ f.message }} {% endfor %}", feedback)
    found = said("FAIL", issue("No API.", "Design"), issue("No unit.", "Both"))
    script = scenario(
        agents={
            "planner": ["plan 1", "plan 2"],
            "designer": ["spec 1", "spec 2"],
            "coder": ["code"],
            "critic": [found, said("PASS")],
        }
    )
    played = desk.play(machine.replace("CRITIC", TYPED).replace("RULE", MAPPED), script)
    assert told(played)[0] == ("planning", "No unit. Both")
