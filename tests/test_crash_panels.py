"""kill -9 at any instant while a panel is asked: judges, samples, re-asks, second opinions."""

from __future__ import annotations

import json
from typing import Any

from tests.crash.points import AGENT, assert_alike, assert_paid_once, begun, killed

MACHINE = f"""
loopkit: 1
input: {{n: {{type: int, minimum: 0, maximum: 3}}}}
limits: {{revisions: input.n, agent_calls: 60}}
agents:
  planner: {{command: {json.dumps([*AGENT, "planner"])}, on_in_doubt: retry}}
  critic: {{command: {json.dumps([*AGENT, "critic"])}, on_in_doubt: retry}}
  mumbler: {{command: {json.dumps([*AGENT, "mumbler"])}, on_in_doubt: retry}}
states:
  draft: {{agent: planner, prompt: "Write a plan. {{{{ feedback }}}}", output: plan, next: judge}}
  judge:
    validate: plan
    by:
      - {{judge: critic, rubric: [It is not vague.], samples: 3, confirm: fail}}
      - {{judge: mumbler, rubric: [It can be checked.], reask: 1}}
    transitions:
      - {{guard: valid, target: done}}
      - {{guard: cap_reached, target: failed}}
      - {{revise: draft, feedback: "revision {{{{ revision }}}}"}}
  done: {{final: success, result: plan}}
  failed: {{final: failure}}
"""
SAMPLES = [f"judge:1:judge:by[0]:0{number}" for number in ("", ":2", ":3")]
SECOND = "judge:1:judge:by[0]:0:4"
REASKED = "judge:1:judge:by[1]:0"
told = killed(MACHINE)


def test_the_unharmed_panel_samples_asks_again_and_confirms(told: Any) -> None:
    unharmed = told[0]
    assert (unharmed["outcome"], unharmed["counters"]) == ("done", {"revisions:draft": 1})
    first = {task: n for task, n in unharmed["exchanges"].items() if task.startswith("judge:1:")}
    assert first == {**dict.fromkeys([*SAMPLES, SECOND], 1), REASKED: 2}
    # In each round an author, three samples and two questions to the other; one second opinion.
    assert unharmed["calls"] == unharmed["replies"] == 13
    assert unharmed["in_doubt"] == 0


SAME = (
    "outcome", "result", "artifacts", "counters", "attempts", "route", "findings", "prompts",
    "exchanges",
)  # fmt: skip


def test_after_resume_a_panel_says_what_the_unharmed_one_said(told: Any) -> None:
    assert_alike(told, SAME)
    for point in begun(told):
        assert point["suspensions"] == 0


def test_no_committed_opinion_is_paid_twice_and_none_is_lost(told: Any) -> None:
    assert_paid_once(told)


def test_the_opinions_that_were_asked_for_at_the_same_time_are_in_doubt_together(told: Any) -> None:
    inside = [point for point in told if point["point"].startswith("inside_call")]
    doubts = [point["in_doubt"] for point in inside]
    assert all(doubts)
    assert max(doubts) > 1
    assert all(point["calls"] > told[0]["calls"] for point in inside)
