"""Where a run needs a person: what they see, what they may decide, and when they are asked."""

from __future__ import annotations

import pytest

from loopkit.engine.events import Decided, Worked
from loopkit.engine.macrostep import Engine
from loopkit.language.load import load
from loopkit.machine.program import Program
from loopkit.views.review import review
from tests.support import Desk, Played, scenario
from tests.test_came_from import PHASES


def escalated(desk: Desk, *designs: str) -> Played:
    agents = {"designer": list(designs), "coder": ["ok"]}
    return desk.play(PHASES, scenario(agents=agents))


def shown(desk: Desk, run: Played) -> str:
    machine = load(desk.folder / "machine.yaml").machine
    return review(Engine(Program(machine, "")), run.state)


def test_an_escalation_shows_report_work_history_counters_and_why_it_came(desk: Desk) -> None:
    """S2.16"""
    run = escalated(desk, "POOR", "POOR again")
    text = shown(desk, run)
    assert run.state.last_report is not None
    found = run.state.last_report.findings[0]
    for part in (
        "spec, attempt 2 by design",
        "POOR again",
        "Verdict of review: fail, 1 blocking finding",
        "high: It is poor. [line 1] (origin assumed: design) (recurring since attempt 1)"
        f" ({found.id[:4]})",
        "  1: fail, 1 blocking finding",
        "Came here from review: the one revision of `design` is used up",
        "Revisions: review → design 1 of 1, total 1 of 3",
    ):
        assert part in text, text


def test_a_used_up_total_is_named_as_the_reason(desk: Desk) -> None:
    """S2.16"""
    tight = PHASES.replace("total_revisions: 3", "total_revisions: 1").replace("max: 1}", "max: 2}")
    run = desk.play(tight, scenario(agents={"designer": ["POOR", "POOR 2"], "coder": []}))
    assert "Came here from review: the one revision of the run is used up" in shown(desk, run)


ROUNDS = """
loopkit: 1
input:
  design: {type: int, default: 3, minimum: 0, maximum: 9}
  code: {type: int, default: 2, minimum: 0, maximum: 9}
  all: {type: int, default: 10, minimum: 0, maximum: 20}
limits: {budgets: {design: input.design, code: input.code}, total_revisions: input.all}
agents: {author: {command: [none]}}
states:
  planning: {agent: author, prompt: Plan., output: plan, on_error: ask, next: plan_check}
  plan_check:
    validate: plan
    by: [{matches: ^P}]
    transitions:
      - {guard: valid, target: design}
      - {revise: planning, budget: design}
      - {target: noted}
  design: {agent: author, prompt: Design., output: sketch, on_error: ask, next: review}
  review:
    validate: sketch
    by: [{matches: ^S, code: S}, {not_matches: x, code: X}]
    transitions:
      - {guard: valid, target: done}
      - {guard: '"X" in codes', revise: design, budget: code}
      - {guard: '"S" in codes', revise: planning, budget: design}
      - {target: noted}
  noted: {render: "The last word: {{ used_up | join(', ') }}.", next: ask}
  ask:
    human: "Used up: {{ used_up | join(', ') | default('nothing', true) }}. Again?"
    choices: [again, stop]
    transitions: [{guard: choice == "again", revise: planning, feedback: Again.}, {target: stopped}]
  done: {final: success}
  stopped: {final: failure}
"""


@pytest.mark.parametrize(
    ("inputs", "texts", "told"),
    [
        ({}, ["-", "P", "-", "-", "P", "-"], "design"),
        ({"design": 9, "code": 2}, ["P", "Sx", "Sx", "Sx"], "code"),
        ({"all": 1, "design": 1}, ["-", "-"], "design, total_revisions"),
        ({"all": 2}, ["-", "P", "Sx", "Sx"], "total_revisions"),
    ],
)
def test_the_counter_that_is_used_up_is_named_of_those_that_loops_share(
    desk: Desk, inputs: dict[str, int], texts: list[str], told: str
) -> None:
    """S2.12: rounds of planning and design count together, those of code alone, and all in all."""
    run = desk.play(ROUNDS, scenario(agents={"author": texts}), inputs)
    [question] = run.questions
    assert question.text == f"Used up: {told}. Again?"
    assert run.state.artifacts["noted"].text == f"The last word: {told}."


def test_no_counter_is_named_where_another_leaves_a_way_back(desk: Desk) -> None:
    run = desk.play(ROUNDS, scenario(agents={"author": ["P", "Sx", "x"]}), {"code": 1})
    assert run.questions[0].text == "Used up: nothing. Again?"


def test_a_stalled_review_is_named_as_the_reason(desk: Desk) -> None:
    """S2.16"""
    stalling = PHASES.replace(
        "{revise: design, max: 1}",
        "{guard: stalled, target: escalated}\n      - {revise: design, max: 1}",
    )
    run = desk.play(stalling, scenario(agents={"designer": ["POOR", "POOR"], "coder": []}))
    assert "because `stalled`: the last revisions made no progress" in shown(desk, run)


@pytest.mark.parametrize(
    ("choice", "outcome"), [("approve", "done"), ("stop", "failed"), ("send_back", "done")]
)
def test_a_person_overrides_rejects_or_sends_back(desk: Desk, choice: str, outcome: str) -> None:
    """S2.17"""
    answer = {"choice": choice, "form": {"why": "It is good enough."}}
    agents = {"designer": ["POOR", "POOR 2", "S"], "coder": ["ok"]}
    run = desk.play(PHASES, scenario(agents=agents, answers={"escalated": [answer]}))
    assert run.outcome == outcome


def test_an_override_is_recorded_with_gate_decision_who_why_when_and_counts(desk: Desk) -> None:
    """S2.18"""
    answer = {"choice": "approve", "form": {"why": "It is good enough."}}
    agents = {"designer": ["POOR", "POOR 2"], "coder": ["ok"]}
    run = desk.play(PHASES, scenario(agents=agents, answers={"escalated": [answer]}))
    stored = next(s for s in run.stored if isinstance(s.event, Worked) and s.event.answer)
    event = stored.event
    assert isinstance(event, Worked)
    assert event.answer is not None
    assert event.considered is not None
    assert (event.state, event.answer.choice, event.answer.by) == ("escalated", "approve", "script")
    assert event.answer.form == {"why": "It is good enough."}
    assert stored.at > 0
    assert (event.considered.state, event.considered.verdict) == ("review", "fail")
    assert (event.considered.findings, event.considered.blocking) == ({"high": 1}, 1)


JUDGED = """
loopkit: 1
origins: [draft]
agents:
  writer: {model: openai/gpt-5-mini}
  critic: {model: openai/gpt-5}
states:
  draft: {agent: writer, prompt: "Write. {{ feedback }}", next: review}
  review:
    validate: draft
    by: [{judge: critic, rubric: [It is good.]}]
    on_error: stuck
    transitions: [{guard: valid, target: done}, {revise: draft, max: 1}, {target: stuck}]
  stuck:
    human: The review did not come to an end.
    choices: [judge_again, stop]
    transitions:
      - {guard: choice == "judge_again", revise: review, max: 2}
      - {target: failed}
  done: {final: success, result: draft}
  failed: {final: failure, result: draft}
"""


def test_a_person_has_the_same_work_judged_again_after_a_judge_that_could_not_run(
    desk: Desk,
) -> None:
    """S2.17"""
    passed = {"data": {"verdict": "pass", "findings": []}}
    failing = {"fault": "bad_request"}
    script = scenario(
        agents={"writer": ["A"], "critic": [failing, passed]}, answers={"stuck": ["judge_again"]}
    )
    run = desk.play(JUDGED, script)
    assert run.route == ["draft", "review", "stuck", "review", "done"]
    assert len(run.prompts("writer")) == 1
    assert [feedback for event in run.of(Decided) for feedback in event.feedback] == []
    assert run.state.artifacts["draft"].attempt == 1
