"""Authors that stop early: they are asked to go on with their work, and every time is counted."""

from __future__ import annotations

from typing import Any

import pytest

from loopkit.engine.events import Intended
from tests.support import Desk, Played, scenario

MACHINE = """
loopkit: 1
agents:
  planner:
    model: openai/gpt-5-mini
    SCHEMA
    session: keep
    tools: {validate_plan: {by: [graph]}}
    require_tool: validate_plan
    max_tool_calls: 4
validators: {graph: [{require: nodes.count > 0, code: EMPTY, message: There are no nodes.}]}
states:
  plan: {agent: planner, prompt: Plan it., next: check}
  check:
    validate: plan
    by: [graph]
    transitions: [{guard: valid, target: done}, {revise: plan, max: 1}, {target: failed}]
  done: {final: success, result: plan}
  failed: {final: failure}
"""
TYPED = MACHINE.replace("SCHEMA", "schema: {nodes: [str]}")
GOOD: dict[str, Any] = {"nodes": ["a"]}
VALIDATING = {"tool_calls": [{"name": "validate_plan", "input": {"draft": GOOD}}]}
ANSWER = {"data": GOOD}


def play(desk: Desk, *attempts: list[Any], machine: str = TYPED) -> Played:
    return desk.play(machine, scenario(agents={"planner": list(attempts)}))


def codes(played: Played) -> list[list[str]]:
    return [[finding.code for finding in report.findings] for report in played.reports]


def asked(played: Played) -> list[str]:
    """What the author was told in words, what its tools gave left out."""
    return [e.prompt for e in played.of(Intended) if e.agent == "planner" and not e.goes_on]


@pytest.mark.parametrize(
    ("early", "why"),
    [
        ("I will now validate the plan.", "it is no draft: the answer is not JSON"),
        ("  ", "it is no draft: the answer is empty"),
        ('{"nodes": 1}', "it is no draft: the answer breaks its schema"),
    ],
)
def test_an_answer_that_is_no_draft_is_asked_to_be_continued(
    desk: Desk, early: str, why: str
) -> None:
    """S0.48: in the same conversation and attempt, with the reason; each time is a call."""
    played = play(desk, [VALIDATING, {"reply": early}, ANSWER])
    assert played.outcome == "done"
    assert codes(played) == [[]]
    first, again = asked(played)
    assert first == "Plan it."
    assert why in again
    assert "`validate_plan`" in again
    assert played.state.usage.agent_calls == 3


def test_whoever_never_gives_a_draft_is_asked_as_often_as_reask_says(desk: Desk) -> None:
    """S0.48: after that it is a rejected attempt, and the loop goes on."""
    machine = TYPED.replace("session: keep", "session: keep\n    reask: 1")
    talk = [{"reply": "Well."}, {"reply": "Let me think."}]
    played = play(desk, talk, [VALIDATING, ANSWER], machine=machine)
    assert played.outcome == "done"
    assert codes(played) == [["not-json"], []]
    assert len(asked(played)) == 3
    assert played.state.usage.agent_calls == 4


def test_an_answer_that_was_cut_off_is_not_asked_to_be_continued(desk: Desk) -> None:
    """It would end at the same place: the attempt is lost, and its author told why."""
    cut = {"reply": '{"nodes": [', "cut_off": True}
    played = play(desk, [cut], [VALIDATING, ANSWER])
    assert codes(played) == [["cut-off"], []]
    assert "cut off" in asked(played)[1]


def test_a_model_without_tools_is_asked_to_continue_as_well(desk: Desk) -> None:
    """S0.48: it is told what the tool says of its answer."""
    machine = TYPED.replace("session: keep", "tool_use: runner")
    played = play(desk, [{"reply": "Soon."}, ANSWER], machine=machine)
    assert played.outcome == "done"
    assert codes(played) == [[]]
    assert "not-json" in asked(played)[1]
    never = play(desk, [{"reply": "Soon."}] * 5, [ANSWER], machine=machine)
    assert codes(never) == [["not-json"], []]


FILED = """
loopkit: 1
workspace: {path: work, create: true}
agents:
  coder:
    command: [none]
    stdin: "{{ prompt }}"
    session: keep
    resume: [--resume, "{{ session }}"]
states:
  plan: {agent: coder, prompt: Plan it., output: {name: plan, file: docs/plan.md}, next: check}
  check:
    validate: plan
    by: [{min_chars: 5}]
    transitions: [{guard: valid, target: done}, {revise: plan, max: 2}, {target: failed}]
  done: {final: success, result: plan}
  failed: {final: failure}
"""


def test_a_program_that_has_not_written_its_file_goes_on_in_its_session(desk: Desk) -> None:
    """S0.48: it is told in its own session what is missing, as often as the edge allows."""
    early = {"reply": "I have a plan in mind.", "session": True}
    wrote = {"reply": "Written.", "session": True, "files": {"docs/plan.md": "The plan.\n"}}
    played = desk.play(FILED, scenario(agents={"coder": [early, wrote]}))
    assert played.outcome == "done"
    again = played.asked("coder")[1]
    assert again.session is not None
    assert again.prompt.startswith("Revision 1 of 2. Fix this problem:")
    assert "docs/plan.md" in again.prompt
    never = desk.play(FILED, scenario(agents={"coder": [early] * 3}))
    assert (never.outcome, len(never.prompts("coder"))) == ("failed", 3)
