"""Defects go back to the state that injected them, each with its own findings."""

from __future__ import annotations

import re
from typing import Any

import pytest

from loopkit.engine.events import ChildStarted, Decided, Emitted, Waiting
from loopkit.language.load import load
from loopkit.machine.graph import Graph
from loopkit.proof.outcomes.analysis import Analysis
from loopkit.proof.outcomes.facts import Panel
from tests.machines import loop
from tests.support import PASS, Desk, Played, scenario

PHASES = """
loopkit: 1
severities: [high, low]
blocking: high
origins: [planning, design, code]
limits: {total_revisions: 6}
agents:
  planner: {model: some/planner}
  designer: {model: some/designer}
  coder: {model: some/coder}
feedback:
  defects: |
    Round {{ revision }} of {{ max_revisions }}:
    {%- for finding in findings %} {{ finding.message }}{% endfor %}
states:
  planning: {agent: planner, prompt: Plan., output: plan, next: check_plan}
  check_plan:
    validate: plan
    by: [{min_chars: 1}]
    transitions: [{guard: valid, target: design}, {revise: planning}, {target: escalated}]
  design: {agent: designer, prompt: "Design {{ plan }}.", output: spec, next: review}
  review:
    validate: spec
    by:
      - {not_matches: NO PLAN, origin: planning, severity: high, message: A unit is missing.}
      - {not_matches: NO API, severity: high, message: An interface is missing.}
      - {not_matches: BOTH, origin: [design, planning], severity: high, message: They differ.}
      - {not_matches: nit, origin: planning, severity: low, message: A name is odd.}
      - {not_matches: LATE, origin: code, severity: high, message: It can't be tested.}
    transitions:
      - {guard: valid, target: code}
      - {revise: {origin: [planning, design]}, feedback: defects, max: 2}
      - {target: escalated}
  code: {agent: coder, prompt: "Code {{ spec }}.", output: source, next: test}
  test:
    validate: source
    by:
      - {not_matches: BAD CODE, severity: high, message: A test fails.}
      - {not_matches: BAD DESIGN, origin: design, severity: high, message: The interface is wrong.}
    transitions:
      - {guard: valid, target: done}
      - {guard: origin == "design", revise: design, max: 1}
      - {revise: code, max: 1}
      - {target: escalated}
  escalated:
    human: What now?
    show: [plan, spec, source, report]
    choices: [send_back, plan_again, stop]
    transitions:
      - guard: choice == "send_back"
        revise: {origin: [planning, design, code]}
        feedback: "{{ comment }}:{% for finding in findings %} {{ finding.message }}{% endfor %}"
        max: 1
      - {guard: choice == "plan_again", revise: planning, feedback: "{{ comment }}", max: 1}
      - {target: failed}
  done: {final: success, result: [plan, spec, source]}
  failed: {final: failure, result: [plan, spec, source]}
"""


def played(
    desk: Desk, planner: list[str], designer: list[str], coder: Any = (), **more: Any
) -> Played:
    agents = {"planner": planner, "designer": designer, "coder": list(coder)}
    return desk.play(PHASES, scenario(agents=agents, **more))


def told(run: Played) -> list[tuple[str, str]]:
    """Who was told what, in order."""
    return [(f.to, f.text) for event in run.of(Decided) for f in event.feedback]


def test_a_defect_goes_back_to_the_state_that_its_rule_names(desk: Desk) -> None:
    run = played(desk, ["P1", "P2"], ["NO PLAN", "S2"], ["ok"])
    assert run.route[:8] == [
        *("planning", "check_plan", "design", "review"),
        *("planning", "check_plan", "design", "review"),
    ]
    assert told(run) == [("planning", "Round 1 of 2: A unit is missing.")]
    assert run.prompts("designer")[1].startswith("Design P2.")
    assert run.state.reports["review"].findings == ()


@pytest.mark.parametrize(("spec", "is_marked"), [("NO API", True), ("LATE", False)])
def test_a_defect_of_nobody_or_of_a_later_state_falls_to_the_author_and_the_first_is_marked(
    desk: Desk, spec: str, is_marked: bool
) -> None:
    run = played(desk, ["P"], [spec, "S2"], ["ok"])
    assert run.route[3:6] == ["review", "design", "review"]
    first = next(iter(run.state.rounds_at["review"])).report.findings[0]
    assert (first.origins, first.defaulted) == (("design",), is_marked)


def test_the_earliest_origin_works_first_and_later_ones_are_told_when_they_work_again(
    desk: Desk,
) -> None:
    run = played(desk, ["P1", "P2"], ["NO PLAN NO API", "S2"], ["ok"])
    assert told(run) == [
        ("planning", "Round 1 of 2: A unit is missing."),
        ("design", "Round 1 of 2: An interface is missing."),
    ]
    assert "An interface is missing." in run.prompts("designer")[1]
    assert "A unit is missing." not in run.prompts("designer")[1]
    assert run.outcome == "done"


def test_who_is_told_later_is_told_all_that_was_found_then(desk: Desk) -> None:
    """The warnings, too, what is mended, and the report; also in a prompt behind another review."""
    items = "{% for f in findings + warnings + resolved %} {{ f.message }}{% endfor %}"
    text = PHASES.replace(
        "      - {not_matches: LATE,",
        "      - {not_matches: odd, origin: design, severity: low, message: It is odd.}\n"
        "      - {not_matches: LATE,",
    ).replace('"Design {{ plan }}."', f'"Design.{items}"')
    text = text.replace("output: spec,", "output: spec, emit: designing,")
    text = re.sub(r"(\{\{ max_revisions \}\}):\n.*", rf"\1 of {{{{ report.state }}}}:{items}", text)
    written = {"planner": ["P1", "P2"], "designer": ["NO API", "BOTH odd", "S3"], "coder": ["ok"]}
    run = desk.play(text, scenario(agents=written))
    all_ = "They differ. It is odd. An interface is missing."
    assert told(run) == [
        ("design", "Round 1 of 2 of review: An interface is missing."),
        ("planning", "Round 1 of 2 of review: They differ."),
        ("design", f"Round 1 of 2 of review: {all_}"),
    ]
    assert run.prompts("designer")[2].startswith(f"Design. {all_}")
    begun = [[finding.message for finding in event.findings] for event in run.of(Emitted)]
    assert begun == [[], ["An interface is missing."], ["They differ.", "It is odd."]]


def test_a_defect_of_several_origins_goes_to_each_of_them_once(desk: Desk) -> None:
    run = played(desk, ["P1", "P2"], ["BOTH", "S2"], ["ok"])
    assert told(run) == [
        ("planning", "Round 1 of 2: They differ."),
        ("design", "Round 1 of 2: They differ."),
    ]


def test_a_minor_defect_of_the_plan_does_not_send_a_severe_one_of_the_design_there(
    desk: Desk,
) -> None:
    run = played(desk, ["P"], ["nit NO API", "S2"], ["ok"])
    assert run.route[3:6] == ["review", "design", "review"]


def test_each_origin_has_a_budget_of_its_own_and_no_later_one_is_tried(desk: Desk) -> None:
    designs = ["NO PLAN", "NO PLAN 2", "NO PLAN 3 NO API"]
    run = played(desk, ["P1", "P2", "P3"], designs, answers={"escalated": ["stop"]})
    assert run.route.count("planning") == 3
    assert run.route[-3:] == ["review", "escalated", "failed"]
    assert run.state.counters == {"review[1].planning": 2, "total": 2}


def test_a_revise_edge_of_a_validate_state_needs_its_state_to_be_the_earliest_origin(
    desk: Desk,
) -> None:
    run = played(desk, ["P"], ["S1", "S2"], ["BAD CODE BAD DESIGN", "BAD CODE", "ok"])
    assert run.route[4:] == [
        *("code", "test", "design", "review", "code", "test"),
        *("code", "test", "done"),
    ]


def test_a_person_sends_back_to_the_origin_of_what_was_found(desk: Desk) -> None:
    designs = ["NO PLAN", "NO PLAN 2", "NO PLAN 3 NO API", "S4"]
    answers = {"escalated": [{"choice": "send_back", "comment": "Once more"}]}
    run = played(desk, ["P1", "P2", "P3", "P4"], designs, ["ok"], answers=answers)
    assert told(run)[-2:] == [
        ("planning", "Once more: A unit is missing."),
        ("design", "Once more: An interface is missing."),
    ]
    assert run.outcome == "done"


def test_a_person_is_shown_what_all_origins_have_to_mend(desk: Desk) -> None:
    question = '"{% for finding in findings %}{{ finding.message }} {% endfor %}What now?"'
    machine = PHASES.replace("human: What now?", f"human: {question}")
    designs = ["NO PLAN NO API", "NO PLAN NO API 2", "NO PLAN NO API 3"]
    agents = {"planner": ["P1", "P2", "P3"], "designer": designs, "coder": []}
    run = desk.play(machine, scenario(agents=agents, answers={"escalated": ["stop"]}))
    [asked] = run.of(Waiting)
    assert asked.text == "A unit is missing. An interface is missing. What now?"


def test_a_person_can_always_send_back_plainly(desk: Desk) -> None:
    designs = ["NO API", "NO API 2", "NO API 3", "S4"]
    answers = {"escalated": [{"choice": "plan_again", "comment": "Think"}]}
    run = played(desk, ["P1", "P2"], designs, ["ok"], answers=answers)
    assert told(run)[-2:] == [
        ("planning", "Think"),
        ("design", "Round 1 of 1: An interface is missing."),
    ]


def test_nothing_can_be_sent_back_where_nobody_found_anything(desk: Desk) -> None:
    always_asked = PHASES.replace(
        "{guard: valid, target: done}", "{guard: valid, target: escalated}"
    )
    text = always_asked.replace(
        "{target: failed}\n  done",
        '{guard: choice == "stop", target: done}\n      - {target: failed}\n  done',
    )
    agents = {"planner": ["P"], "designer": ["S"], "coder": ["ok"]}
    run = desk.play(text, scenario(agents=agents))
    assert run.state.question is not None
    assert {choice.name: choice.closed for choice in run.state.question.choices} == {
        "send_back": "nothing is found that could be sent back",
        "plan_again": "",
        "stop": "",
    }


def test_without_origins_a_finding_belongs_to_nobody_in_particular(desk: Desk) -> None:
    text = loop("[{min_chars: 3}]", {"valid": "done"}, "{revise: draft}", "{target: failed}")
    run = desk.play(text, scenario(agents={"author": ["A", "A story"]}))
    report = next(iter(run.state.rounds_at["judge"])).report
    assert (report.origin, report.findings[0].origins) == (None, ())
    assert "origin" not in run.of(Decided)[1].facts


# -- what is known before a run ----------------------------------------------------------------


def test_a_rule_that_blocks_for_an_earlier_origin_keeps_later_ones_from_being_the_earliest(
    desk: Desk,
) -> None:
    analysis = Analysis.of_machine(load(desk.write("machine.yaml", PHASES)).machine)
    panel = Panel(analysis, "review")
    fail = {"verdict": "fail", "origin": "design"}
    assert panel.is_possible(fail)
    # Only two rules find something that begins with the design.
    assert panel.is_possible(fail | {"error_count": 2})
    assert not panel.is_possible({"verdict": "pass", "origin": "design"})
    assert not panel.is_possible({"verdict": "fail", "origin": "code"})


def test_a_budget_may_be_given_for_each_origin(desk: Desk) -> None:
    text = PHASES.replace("limits: {", "limits: {budgets: {planned: 1, designed: 3}, ").replace(
        "feedback: defects, max: 2}",
        "feedback: defects, budget: {planning: planned, design: designed}}",
    )
    graph = Graph(load(desk.write("machine.yaml", text)).machine)
    assert [edge.counters for edge in graph.revise_edges["review"]] == [
        ("budget:planned", "total"),
        ("budget:designed", "total"),
    ]


# -- items of a list ---------------------------------------------------------------------------

PART = """
loopkit: 1
input: {id: str}
agents: {builder: {model: some/builder}}
states:
  build: {agent: builder, prompt: "Build {{ input.id }}.", next: check}
  check:
    validate: build
    by: [{min_chars: 1}]
    transitions: [{guard: valid, target: built}, {revise: build}, {target: failed}]
  built: {final: success, result: build}
  failed: {final: failure}
"""


MISSING = {"message": "A unit is missing.", "severity": "error", "origin": "planning"}
BLUE = {"message": "It is blue.", "severity": "error", "origin": "parts", "location": "b.build"}
FOUND = [{"data": {"verdict": "fail", "findings": [MISSING, BLUE]}}, PASS]


WORDED = """
loopkit: 1
input: {parts: [{id: str}]}
origins: [planning, parts]
agents: {writer: {model: some/writer}, reader: {model: some/reader}}
states:
  planning: {agent: writer, prompt: Plan., output: plan, on_error: {content: failed}, next: parts}
  parts:
    each: input.parts
    as: part
    key: part.id
    max_items: 5
    machine: part.yaml
    input: {id: "{{ part.id }}"}
    next: review
  review:
    validate: parts
    by: [{judge: reader, rubric: [It is right.]}]
    transitions:
      - {guard: valid, target: done}
      - revise: {origin: [planning, parts]}
        feedback: "So: {% for finding in findings %}{{ finding.message }}{% endfor %}"
      - {target: failed}
  done: {final: success, result: parts}
  failed: {final: failure}
"""


def test_items_that_are_sent_back_hear_what_waited_in_the_words_of_its_edge_and_others_stay(
    desk: Desk,
) -> None:
    desk.write("part.yaml", PART)
    script = scenario(
        agents={"writer": {"planning": ["P1", "P2"], "text": ["T1", "T2"]}, "reader": FOUND},
        children={"parts": {"*": {"agents": {"builder": ["one", "two"]}}}},
    )
    joined = (
        "text\n  text: {agent: writer, prompt: Join., on_error: {content: failed}, next: review}"
    )
    text = WORDED.replace("next: review\n", f"next: {joined}\n").replace("parts]}", "parts, text]}")
    text = text.replace("validate: parts", "validate: text")
    text = text.replace("origins: [planning, parts]", "origins: [planning, parts, text]")
    run = desk.play(text, script, {"parts": [{"id": "a"}, {"id": "b"}]})
    assert run.outcome == "done"
    begun = [(e.key, e.feedback.text if e.feedback else "") for e in run.of(ChildStarted)]
    # A child has findings of its own, of which some may have the same ids.
    assert [e.feedback.tells for e in run.of(ChildStarted) if e.feedback] == [None]
    assert begun == [("a", ""), ("b", ""), ("b", "So: It is blue.")]


def test_beside_the_words_of_a_person_each_item_is_told_what_waited_of_its_own(
    desk: Desk,
) -> None:
    desk.write("part.yaml", PART)
    ask = """      - {target: ask}
  ask:
    human: What now?
    choices: [again, stop]
    transitions:
      - {guard: choice == "again", revise: parts, feedback: "{{ comment }}", max: 1}
      - {target: failed}
  done:"""
    worded = (
        '\n        feedback: "So: {% for finding in findings %}{{ finding.message }}{% endfor %}"'
    )
    text = WORDED.replace(worded, "").replace("{content: failed}", "{content: failed, fatal: ask}")
    red = {**BLUE, "message": "It is red.", "location": "a.build"}
    found = {"data": {"verdict": "fail", "findings": [MISSING, BLUE, red]}}
    script = scenario(
        agents={"writer": ["P1", [{"fault": "bad_request"}]], "reader": [found, PASS]},
        children={"parts": {"*": {"agents": {"builder": ["one", "two"]}}}},
        answers={"ask": [{"choice": "again", "comment": "Mind the gap."}]},
    )
    run = desk.play(
        text.replace("      - {target: failed}\n  done:", ask),
        script,
        {"parts": [{"id": "a"}, {"id": "b"}]},
    )
    assert run.outcome == "done"
    told_of = [e.feedback.text for e in run.of(ChildStarted) if e.feedback]
    assert ["Mind the gap." in text for text in told_of] == [True, True]
    assert ["It is red." in text for text in told_of] == [True, False]
    assert ["It is blue." in text for text in told_of] == [False, True]
