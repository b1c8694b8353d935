"""Kept artifacts: a state that is entered again works only where something of its work changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from loopkit.cli import invoke
from loopkit.engine.best_version import attempts_at
from loopkit.engine.changes import fold
from loopkit.engine.events import Decided, Emitted, Kept, Worked
from loopkit.engine.macrostep import is_kept
from loopkit.language.load import load, load_text
from loopkit.machine.graph import Graph
from loopkit.machine.program import Program
from loopkit.proof.bounds.exploring import explore
from loopkit.proof.outcomes.analysis import Analysis
from loopkit.views.diagram.mermaid import mermaid
from loopkit.views.diagram.model import drawing
from tests.recording import assert_same, taped
from tests.support import PASS, CommandLine, Desk, Played, console_lines, fails, scenario

MACHINE = """
loopkit: 1
limits: {revisions: 4LIMITS}
agents:
  planner: {model: ollama/planner, schema: {prose: str, interfaces: [str]}}
  designer: {model: ollama/designer, session: keep}
  coder: {model: ollama/coder}
states:
  plan:
    agent: planner
    prompt: "Plan. {{ feedback }}"
    on_error: {content: failed}
    next: design
  design:
    agent: designer
    prompt: "Design for {{ plan }}"
    needs: NEEDS
    emit: designing
    on_error: {content: failed}
    next: code
  code:
    agent: coder
    prompt: "Code {{ design }} by {{ plan.prose }}"
    next: review
  review:
    validate: code
    by: [{not_matches: bad, message: It is bad.}]
    transitions:
      - {guard: valid, target: accepted}
      - {guard: attempt < 3, revise: plan}
      - {target: person}
  person:
    human: What now?
    choices: [plan, design, stop]
    transitions:
      - {guard: choice == "plan", revise: plan, feedback: "Plan again."}
      - {guard: choice == "design", revise: design, feedback: "Design again."}
      - {target: failed}
  accepted: {final: success, result: [code, design]}
  failed: {final: failure}
"""


def machine(needs: str = "[plan.interfaces]", limits: str = "") -> str:
    return MACHINE.replace("NEEDS", needs).replace("LIMITS", limits)


def plans(*said: tuple[str, list[str]]) -> list[dict[str, object]]:
    return [{"data": {"prose": prose, "interfaces": names}} for prose, names in said]


def worked(played: Played, state: str) -> list[int]:
    """The visits of a state on which it worked."""
    return [event.visit for event in played.of(Worked) if event.state == state]


def kept(played: Played) -> list[tuple[str, int]]:
    return [(event.state, event.visit) for event in played.of(Kept)]


def replan(desk: Desk, interfaces: list[str], needs: str = "[plan.interfaces]") -> Played:
    said = plans(("one", ["a"]), ("two", interfaces))
    agents = {"planner": said, "designer": ["D1", "D2"], "coder": ["bad", "good"]}
    return desk.play(machine(needs), scenario(agents=agents))


def test_a_replan_with_other_prose_and_the_same_interfaces_costs_no_design(desk: Desk) -> None:
    played = replan(desk, ["a"])
    assert played.result == {"code": "good", "design": "D1"}
    assert (worked(played, "design"), kept(played)) == ([1], [("design", 2)])
    assert played.route == [
        *("plan", "design", "code", "review"),
        *("plan", "design", "code", "review", "accepted"),
    ]
    assert played.prompts("coder")[-1] == "Code D1 by two"


def test_a_replan_with_other_interfaces_costs_a_design(desk: Desk) -> None:
    played = replan(desk, ["b"])
    assert played.result == {"code": "good", "design": "D2"}
    assert (worked(played, "design"), kept(played)) == ([1, 2], [])


def test_what_is_needed_whole_has_changed_with_any_of_its_fields(desk: Desk) -> None:
    assert kept(replan(desk, ["a"], "plan")) == []
    assert kept(replan(desk, ["a"], "[plan.interfaces, plan.prose]")) == []


def test_a_kept_state_gets_a_visit_and_nothing_else_of_it_advances(desk: Desk) -> None:
    played = replan(desk, ["a"])
    state = played.state
    assert (state.visits["design"], state.attempts["design"]) == (2, 1)
    assert state.artifacts["design"].attempt == 1
    assert len(state.conversations["design", "designer"]) == 1
    assert [event.name for event in played.of(Emitted)] == ["designing"]
    program = Program(load(played.folder / "machine.yaml").machine, "digest")
    assert attempts_at(program, state, "design") == 1
    after = [event for event in played.of(Decided) if event.source == "design"]
    assert [event.facts["attempt"] for event in after] == [1, 1]


def test_a_state_keeps_what_it_made_however_often_it_is_entered(durable: Desk) -> None:
    said = plans(("one", ["a"]), ("two", ["a"]), ("three", ["b"]), ("four", ["b"]))
    agents = {
        "planner": said, "designer": ["D1", "D2"], "coder": ["bad 1", "bad 2", "bad 3", "good"]
    }  # fmt: skip
    played = durable.play(machine(), scenario(agents=agents))
    played = durable.answer(played.state.run, "plan", comment="")
    assert kept(played) == [("design", 2), ("design", 4)]
    assert worked(played, "design") == [1, 3]
    assert played.result == {"code": "good", "design": "D2"}


def test_a_person_who_sends_back_is_always_obeyed_even_if_the_same_text_comes(
    durable: Desk,
) -> None:
    said = plans(("one", ["a"]), ("two", ["a"]), ("three", ["a"]))
    agents = {
        "planner": said,
        "designer": ["D1", "D1"],
        "coder": ["bad 1", "bad 2", "bad 3", "good"],
    }
    played = durable.play(machine(), scenario(agents=agents))
    assert (played.state.status, kept(played)) == ("waiting", [("design", 2), ("design", 3)])
    played = durable.answer(played.state.run, "design", comment="")
    assert worked(played, "design") == [1, 4]
    assert played.asked("designer")[-1].prompt == "Design again."
    assert played.result == {"code": "good", "design": "D1"}


def test_after_such_work_it_is_what_was_made_then_that_is_kept(durable: Desk) -> None:
    said = plans(*((f"plan {number}", ["a"]) for number in range(4)))
    coder = ["bad 1", "bad 2", "bad 3", "bad 4", "good"]
    agents = {"planner": said, "designer": ["D1", "D2"], "coder": coder}
    played = durable.play(machine(), scenario(agents=agents))
    played = durable.answer(played.state.run, "design", comment="")
    played = durable.answer(played.state.run, "plan", comment="")
    assert kept(played)[-1] == ("design", 5)
    assert played.result == {"code": "good", "design": "D2"}


def test_an_unusable_answer_is_not_kept(desk: Desk) -> None:
    """What did not come can come with the same prompt."""
    text = machine().replace(
        'prompt: "Design for {{ plan }}"', 'prompt: "Design for {{ plan }}"\n    output: code'
    )
    text = text.replace("Code {{ design }} by", "Code by").replace("[code, design]", "code")
    text = text.replace("    on_error: {content: failed}\n    next: code", "    next: review")
    text = text.replace(
        """  code:
    agent: coder
    prompt: "Code by {{ plan.prose }}"
    next: review
""",
        "",
    ).replace("  coder: {model: ollama/coder}\n", "")
    agents = {"planner": plans(("one", ["a"]), ("two", ["a"])), "designer": ["", "good"]}
    played = desk.play(text, scenario(agents=agents))
    assert (worked(played, "design"), kept(played)) == ([1, 2], [])
    assert played.outcome == "accepted"


WRITING = """
loopkit: 1
limits: {revisions: 3}
agents:
  planner: {model: ollama/planner}
  writer: {model: ollama/writer, retry: {attempts: 1}}
states:
  plan: {agent: planner, prompt: "Plan. {{ feedback }}", on_error: {content: failed}, next: write}
  write:
    agent: writer
    prompt: "Write {{ plan }}"
    needs: plan
    output: text
    on_error: {content: failed}
    ONWARD
  done: {final: success, result: text}
  failed: {final: failure}
"""
TWO_AUTHORS = WRITING.replace(
    "ONWARD",
    """transitions: [{guard: attempt == 1, target: shorten}, {target: review}]
  shorten: {render: "short", output: text, NEED next: review}
  review:
    validate: text
    by: [{matches: long, message: It is short.}]
    transitions: [{guard: valid, target: done}, {revise: plan}, {target: failed}]""",
)


def test_an_artifact_that_another_state_has_written_since_is_written_anew(desk: Desk) -> None:
    agents = {"planner": ["the plan"] * 2, "writer": ["long 1", "long 2"]}
    played = desk.play(TWO_AUTHORS.replace("NEED ", ""), scenario(agents=agents))
    assert (worked(played, "write"), kept(played)) == ([1, 2], [])
    assert played.result == {"text": "long 2"}


def test_of_two_authors_the_one_that_wrote_last_may_be_kept(desk: Desk) -> None:
    text = TWO_AUTHORS.replace("NEED ", "needs: plan, ").replace(
        "transitions: [{guard: attempt == 1, target: shorten}, {target: review}]", "next: shorten"
    )
    agents = {"planner": ["the plan"] * 4, "writer": [f"long {number}" for number in range(4)]}
    played = desk.play(text, scenario(agents=agents))
    # Each time the writer has written in between.
    assert (kept(played), worked(played, "shorten")) == ([], [1, 2, 3, 4])


EDITED = WRITING.replace(
    "ONWARD",
    """next: person
  person:
    human: Good?
    choices: [good, again]
    edit: text
    transitions:
      - {guard: choice == "good", target: done}
      - {revise: plan, feedback: "Plan again."}
      - {target: failed}""",
)


@pytest.mark.parametrize(("edit", "asked"), [(None, 1), ("Mine.", 2)])
def test_what_a_person_has_changed_is_written_anew(
    durable: Desk, edit: str | None, asked: int
) -> None:
    agents = {"planner": ["the plan"] * 2, "writer": ["one", "two"]}
    played = durable.play(EDITED, scenario(agents=agents))
    played = durable.answer(played.state.run, "again", edit=edit)
    assert len(worked(played, "write")) == asked
    assert len(kept(played)) == 2 - asked


def test_a_limit_that_is_used_up_stops_no_state_that_is_kept(desk: Desk) -> None:
    said = plans(("one", ["a"]), ("two", ["a"]))
    agents = {"planner": said, "designer": ["D1"], "coder": ["bad", "good"]}
    played = desk.play(machine(limits=", agent_calls: 4"), scenario(agents=agents))
    assert kept(played) == [("design", 2)]
    assert (played.state.status, played.state.state) == ("suspended", "code")


def test_a_program_is_never_kept_and_check_says_so(desk: Desk) -> None:
    text = machine().replace(
        "designer: {model: ollama/designer, session: keep}", "designer: {command: [a]}"
    )
    assert [(p.code, p.severity) for p in desk.problems(text)] == [("no-effect", "warning")]
    agents = {"planner": plans(("one", ["a"]), ("two", ["a"])), "designer": ["D1", "D2"]}
    played = desk.play(text, scenario(agents=agents | {"coder": ["bad", "good"]}))
    assert (worked(played, "design"), kept(played)) == ([1, 2], [])


CHOSEN = """
loopkit: 1
limits: {revisions: 2}
agents:
  planner: {model: ollama/planner, schema: {who: one|other, what: str}}
  one: {model: ollama/one}
  other: {model: ollama/other}
states:
  plan: {agent: planner, prompt: "Plan. {{ feedback }}", on_error: {content: failed}, next: write}
  write:
    agent: {from: plan.who, of: {one: one, other: other}}
    prompt: "Write {{ plan }}"
    needs: plan.what
    next: review
  review:
    validate: write
    by: [{not_matches: bad, message: It is bad.}]
    transitions: [{guard: valid, target: done}, {revise: plan}, {target: failed}]
  done: {final: success, result: write}
  failed: {final: failure}
"""


def test_what_another_agent_made_is_not_kept(desk: Desk) -> None:
    said = [{"data": {"who": who, "what": "x"}} for who in ("one", "one", "other")]
    agents = {"planner": said, "one": ["bad"], "other": ["good"]}
    played = desk.play(CHOSEN, scenario(agents=agents))
    assert (kept(played), worked(played, "write")) == ([("write", 2)], [1, 3])
    assert played.result == {"write": "good"}


def test_a_template_is_kept_like_an_answer(desk: Desk) -> None:
    text = machine().replace('agent: designer\n    prompt: "Design', 'render: "Design')
    text = text.replace("  designer: {model: ollama/designer, session: keep}\n", "")
    text = text.replace("    emit: designing\n    on_error: {content: failed}\n", "")
    said = plans(("one", ["a"]), ("two", ["a"]))
    played = desk.play(text, scenario(agents={"planner": said, "coder": ["bad", "good"]}))
    assert kept(played) == [("design", 2)]
    assert '"prose": "one"' in str(played.result["design"]).replace('":"', '": "')


def test_a_template_that_is_written_to_a_file_is_written_each_time(desk: Desk) -> None:
    text = machine().replace('agent: designer\n    prompt: "Design', 'render: "Design')
    text = text.replace("  designer: {model: ollama/designer, session: keep}\n", "")
    text = text.replace(
        "    emit: designing\n    on_error: {content: failed}\n",
        "    output: {name: design, file: log.txt, append: true}\n",
    )
    assert [p.code for p in desk.problems(text)] == ["no-effect"]
    said = plans(("one", ["a"]), ("two", ["a"]))
    played = desk.play(text, scenario(agents={"planner": said, "coder": ["bad", "good"]}))
    assert kept(played) == []
    assert (desk.folder / "log.txt").read_text(encoding="utf-8").count("Design") == 2


def test_another_definition_of_the_state_or_its_agent_asks_for_new_work(durable: Desk) -> None:
    said = plans(("one", ["a"]), ("two", ["a"]), ("three", ["a"]), ("four", ["a"]))
    coder = ["bad 1", "bad 2", "bad 3", "good"]
    script = scenario(agents={"planner": said, "designer": ["D1", "D2"], "coder": coder})
    waiting = durable.play(machine(), script)
    assert [visit for _, visit in kept(waiting)] == [2, 3]
    raised = machine().replace("Design for", "Design well for")
    changed = durable.repair(waiting.state.run, raised)
    played = durable.answer(changed.state.run, "plan", comment="")
    assert (worked(played, "design"), played.outcome) == ([1, 4], "accepted")


@pytest.mark.parametrize("interfaces", ["a", "b"])
def test_a_resumed_run_decides_as_one_that_was_not_stopped(durable: Desk, interfaces: str) -> None:
    said = plans(("one", ["a"]), ("two", ["a"]), ("three", ["a"]), ("four", [interfaces]))
    coder = ["bad 1", "bad 2", "bad 3", "good"]
    script = scenario(agents={"planner": said, "designer": ["D1", "D2"], "coder": coder})
    waiting = durable.play(machine(), script)
    played = durable.answer(waiting.state.run, "plan", comment="")
    assert played.outcome == "accepted"
    assert (("design", 4) in kept(played)) is (interfaces == "a")


# -- progress ----------------------------------------------------------------------------------

JUDGED = """
loopkit: 1
limits: {revisions: 4, stall: 2}
agents:
  planner: {model: ollama/planner, schema: {prose: str, interfaces: [str]}}
  designer: {model: ollama/designer}
  critic: {model: ollama/critic}
states:
  plan:
    agent: planner
    prompt: "Plan. {{ feedback }}"
    on_error: {content: failed}
    next: design
  design:
    agent: designer
    prompt: "Design for {{ plan }}"
    needs: [plan.interfaces]
    next: review
  review:
    validate: design
    by: [{judge: critic, sees: [plan], rubric: [It fits the plan.]}]
    transitions:
      - {guard: valid, target: accepted}
      - {guard: stalled, target: stuck}
      - {revise: plan}
      - {target: failed}
  accepted: {final: success, result: design}
  stuck: {final: failure}
  failed: {final: failure}
"""


def test_a_kept_artifact_with_another_plan_behind_it_is_no_standstill(desk: Desk) -> None:
    said = plans(("one", ["a"]), ("two", ["a"]), ("three", ["a"]))
    critic = [fails("A"), fails("B"), fails("C", "D"), PASS]
    agents = {"planner": [*said, *plans(("four", ["a"]))], "designer": ["D"], "critic": critic}
    played = desk.play(JUDGED, scenario(agents=agents))
    assert (played.outcome, len(kept(played))) == ("accepted", 3)
    assert [report.stalled for report in played.reports] == [False] * 4


def test_the_same_findings_about_a_kept_artifact_are_a_standstill(desk: Desk) -> None:
    """The plan has worked in between, so that each report counts."""
    said = plans(("one", ["a"]), ("two", ["a"]), ("three", ["a"]))
    agents = {"planner": said, "designer": ["D"], "critic": [fails("A"), fails("A")]}
    played = desk.play(JUDGED, scenario(agents=agents))
    assert played.outcome == "stuck"
    assert [report.made_from for report in played.reports] == [{"plan": 1}, {"plan": 2}]


def test_the_same_plan_again_is_a_standstill_also_where_the_design_is_kept(desk: Desk) -> None:
    said = plans(("one", ["a"]), ("two", ["a"]), ("one", ["a"]))
    critic = [fails("A"), fails("B"), fails("C")]
    agents = {"planner": said, "designer": ["D"], "critic": critic}
    played = desk.play(JUDGED, scenario(agents=agents))
    assert [report.stalled for report in played.reports] == [False, False, True]


def test_work_is_made_from_what_it_needs_also_where_no_prompt_names_that(desk: Desk) -> None:
    """So the same text behind another plan is no standstill."""
    text = JUDGED.replace('"Design for {{ plan }}"', "Design.").replace("[plan.interfaces]", "plan")
    said = plans(("one", ["a"]), ("two", ["a"]))
    critic = [fails("A", "B"), fails("C")]
    agents = {"planner": said, "designer": ["D", "D"], "critic": critic}
    played = desk.play(text, scenario(agents=agents))
    assert [report.stalled for report in played.reports] == [False, False]
    assert [report.made_from for report in played.reports] == [{"plan": 1}, {"plan": 2}]


# -- origins -----------------------------------------------------------------------------------

PHASES = """
loopkit: 1
severities: [high, low]
blocking: high
origins: [planning, design]
limits: {total_revisions: 6}
agents:
  planner: {model: ollama/planner, schema: {prose: str, interfaces: [str]}}
  designer: {model: ollama/designer}
states:
  planning:
    agent: planner
    prompt: "Plan. {{ feedback }}"
    output: plan
    on_error: {content: failed}
    next: design
  design:
    agent: designer
    prompt: "Design {{ plan.interfaces }}{% if revision %} ({{ revision }}){% endif %}. \\
      {{ feedback }} {{ previous }}"
    output: spec
    next: review
  review:
    validate: spec
    by:
      - {not_matches: PLAN, origin: planning, severity: high, message: A unit is missing.}
      - {not_matches: API, severity: high, message: An interface is missing.}
    transitions:
      - {guard: valid, target: done}
      - {revise: {origin: [planning, design]}, max: 3}
      - {target: person}
  person:
    human: What now?
    choices: [plan, stop]
    transitions:
      - {guard: choice == "plan", revise: planning, feedback: "Plan again."}
      - {target: failed}
  done: {final: success, result: [plan, spec]}
  failed: {final: failure}
"""


def phases(desk: Desk, plan: list[dict[str, object]], designer: list[str]) -> Played:
    return desk.play(PHASES, scenario(agents={"planner": plan, "designer": designer}))


def test_where_origins_are_declared_a_state_whose_prompt_is_the_same_is_kept(desk: Desk) -> None:
    """Until its findings come back: then nothing has changed for the design."""
    said = plans(("one", ["a"]), ("two", ["a"]), ("three", ["b"]))
    played = phases(desk, said, ["PLAN", "good"])
    assert (kept(played), worked(played, "design")) == ([("design", 2)], [1, 3])
    assert played.outcome == "done"


def test_what_waits_for_a_state_makes_it_work_though_its_prompt_is_the_same(desk: Desk) -> None:
    played = phases(desk, plans(("one", ["a"]), ("two", ["a"])), ["PLAN API", "good"])
    assert (kept(played), worked(played, "design")) == ([], [1, 2])
    assert "An interface is missing." in played.prompts("designer")[-1]


def test_what_a_revision_adds_to_a_prompt_is_nothing_that_changes(desk: Desk) -> None:
    """The second design is made with feedback, a previous version and a number."""
    said = plans(("one", ["a"]), ("two", ["a"]), ("three", ["b"]))
    played = phases(desk, said, ["API", "PLAN", "good"])
    assert "(1)" in played.prompts("designer")[1]
    assert (worked(played, "design"), kept(played)) == ([1, 2, 4], [("design", 3)])


# -- what is told of it ------------------------------------------------------------------------


def test_the_console_says_what_was_kept(desk: Desk) -> None:
    played = replan(desk, ["a"])
    told = "  design         kept: what it is made from is as it was"
    assert told in console_lines(played)


def test_a_recording_of_a_run_that_kept_something_plays_it_again(durable: Desk) -> None:
    played = replan(durable, ["a"])
    made = taped(durable, played)
    assert_same(made, played)
    assert "kept: [design]" in made.path.read_text(encoding="utf-8")


CASES = """
scenario: 1
machine: machine.yaml
cases:
  replan:
    agents:
      planner: [{data: {prose: one, interfaces: [a]}}, {data: {prose: two, interfaces: [SAME]}}]
      designer: [D1, REST]
      coder: [bad, good]
    expect: {outcome: accepted, kept: [WANTED]}
"""


def cases(desk: Desk, second: str, wanted: str, *options: str) -> tuple[int, str]:
    """The exit code of `loopkit test`, and the file then."""
    desk.write("machine.yaml", machine())
    rest = "D2" if second == "b" else ""
    text = CASES.replace("SAME", second).replace(", REST", f", {rest}" if rest else "")
    path = desk.write("machine.scenario.yaml", text.replace("WANTED", wanted))
    return invoke(["test", str(path), *options]), path.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("second", "wanted", "code"),
    [("a", "design", 0), ("a", "", 4), ("a", "\u2026", 0), ("b", "", 0), ("b", "design", 4)],
)
def test_a_case_can_expect_what_is_kept(desk: Desk, second: str, wanted: str, code: int) -> None:
    assert (cases(desk, second, wanted)[0] == 0) is (code == 0)


def test_an_unknown_state_among_those_that_are_kept_is_told(desk: Desk, cli: CommandLine) -> None:
    cases(desk, "a", "desing")
    assert "the machine has no state `desing`" in "".join(cli.said())


def test_the_diagram_says_what_a_state_needs(desk: Desk) -> None:
    loaded = load(desk.write("machine.yaml", machine()))
    assert "needs plan.interfaces" in mermaid(drawing(Graph(loaded.machine)))


# -- what runs can take ------------------------------------------------------------------------

TWICE = """
loopkit: 1
agents: {planner: {model: ollama/p}, designer: {model: ollama/d}}
states:
  plan: {agent: planner, prompt: "Plan. {{ feedback }}", on_error: {content: failed}, next: design}
  design:
    agent: designer
    prompt: "Design {{ plan }}"
    NEED on_error: {content: failed}
    ON
  gate:
    transitions:
      - {guard: attempt > 1, target: LAST}
      - {revise: plan, feedback: Again., max: 1}
      - {target: failed}
  done: {final: success, result: design}
  failed: {final: failure}
"""


def runs(
    need: str, on: str = "next: gate", last: str = "done", text: str = TWICE
) -> tuple[object, object]:
    """The fewest agent runs to a success, and the most of all."""
    text = text.replace("NEED", f"{need}\n   ").replace("ON", on).replace("LAST", last)
    bounds = explore(Analysis.of_machine(load_text(text, "m.yaml", Path()).machine))
    assert bounds.stuck == ()
    return bounds.runs.best and bounds.runs.best.total, bounds.runs.worst.total


TWICE_ONLY = "transitions: [{guard: attempt > 1, target: done}, {target: gate}]"
"""The run ends well only where the design has worked twice."""
JUDGE = """next: judge
  judge:
    validate: design
    by: [{min_chars: 5}]
    transitions: [{guard: attempt > 1, target: done}, {revise: plan, max: 1}, {target: failed}]"""
SHORTEN = "next: shorten\n  shorten: {render: short, output: design, next: gate}"


@pytest.mark.parametrize(
    ("need", "more", "least", "most"),
    [
        pytest.param("", (), 4, 4, id="no state that may be kept"),
        pytest.param("needs: plan", (), 3, 4, id="one takes nothing at least"),
        pytest.param("needs: plan", (TWICE_ONLY, "failed"), 4, 4, id="it has no further attempt"),
        pytest.param("needs: plan", (JUDGE, "failed"), 4, None, id="nor has its artifact"),
        pytest.param("needs: plan", (SHORTEN,), 4, None, id="another one has written since"),
    ],
)
def test_the_proof_knows_what_a_state_takes_that_may_be_kept(
    need: str, more: tuple[str, ...], least: int, most: int | None
) -> None:
    best, worst = runs(need, *more)
    assert (best, most or worst) == (least, worst)


def test_a_state_that_is_sent_back_works_in_the_proof() -> None:
    again = "feedback: Again., max: 1}"
    either = f"{{guard: input.flag, revise: plan, {again}\n      - {{revise: design, {again}"
    sent_back = TWICE.replace(f"{{revise: plan, {again}", either)
    sent_back = sent_back.replace("agents:", "input: {flag: bool}\nagents:")
    assert runs("needs: plan", text=sent_back)[0] == 3


OTHERWISE = """
loopkit: 1
input: {again: bool}
limits: {budgets: {back: 1}}
agents:
  planner: {model: ollama/p}
  designer: {model: ollama/d, schema: {ok: bool}}
states:
  plan: {agent: planner, prompt: "Plan. {{ feedback }}", on_error: {content: failed}, next: design}
  design:
    agent: designer
    prompt: "Design {{ plan }}"
    needs: plan
    on_error: {content: failed}
    transitions: [{guard: ok, target: first}, {target: second}]
  first:
    transitions:
      - {guard: cap_reached, target: failed}
      - {revise: plan, feedback: Again., budget: back}
      - {target: failed}
  second:
    transitions:
      - {guard: cap_reached, target: done}
      - {guard: input.again, revise: plan, feedback: Again., budget: back}
      - {target: failed}
  done: {final: success, result: design}
  failed: {final: failure}
"""


def test_a_kept_state_goes_on_in_the_proof_as_after_its_last_work() -> None:
    """Whoever said yes can only be kept to it, so that the way over `first` needs a new answer."""
    once = OTHERWISE.replace("{guard: input.again, revise", "{guard: not input.again, revise")
    found = explore(Analysis.of_machine(load_text(OTHERWISE, "m.yaml", Path()).machine))
    also = explore(
        Analysis.of_machine(load_text(once, "m.yaml", Path()).machine), inputs={"again": True}
    )
    # By `second` twice, where what was answered is kept; by `first` it takes a new answer.
    assert (found.runs.best.total, also.runs.best.total) == (3, 4)


# -- what is kept by nobody --------------------------------------------------------------------


def test_whoever_was_sent_back_or_has_begun_to_work_is_not_kept(desk: Desk) -> None:
    """Also where nothing else says so: no feedback waits, and the call is still open."""
    played = replan(desk, ["a"])
    at = next(i for i, event in enumerate(played.events) if isinstance(event, Kept))
    before = fold(played.events[:at])
    program = Program(load(desk.folder / "machine.yaml").machine, "digest")
    assert is_kept(program, before)
    assert not is_kept(program, before.replace(is_revision=True))
    begun = {**before.tasks, "design:2:author": before.tasks["design:1:author"]}
    assert not is_kept(program, before.replace(tasks=begun))


PICKED = """
loopkit: 1
limits: {revisions: 1}
agents: {planner: {model: ollama/p}, designer: {model: ollama/d}, coder: {model: ollama/c}}
states:
  plan: {agent: planner, prompt: "Plan. {{ feedback }}", on_error: {content: failed}, next: design}
  design: {agent: designer, prompt: "Design {{ plan }}", needs: plan, next: review}
  review:
    validate: design
    by: [{not_matches: bad, message: It is bad.}, {not_matches: worse, message: It is worse.}]
    transitions: [{guard: valid, target: code}, {revise: design}, {target: person}]
  person:
    human: Take the best?
    show: [design]
    pick: best
    choices: [yes_please]
    transitions: [{target: code}]
  code: {agent: coder, prompt: "Code {{ design }}", next: test}
  test:
    validate: code
    by: [{not_matches: wrong, message: It is wrong.}]
    transitions: [{guard: valid, target: done}, {revise: plan}, {target: failed}]
  done: {final: success, result: [design, code]}
  failed: {final: failure}
"""


def test_an_earlier_version_that_was_picked_as_the_best_is_not_kept(durable: Desk) -> None:
    """What the state made last is another one."""
    agents = {
        "planner": ["the plan", "the plan"],
        "designer": ["bad", "bad and worse", "fine"],
        "coder": ["wrong", "right"],
    }
    waiting = durable.play(PICKED, scenario(agents=agents))
    played = durable.answer(waiting.state.run, "yes_please")
    assert played.prompts("coder") == ["Code bad", "Code fine"]
    assert (worked(played, "design"), kept(played)) == ([1, 2, 3], [])
