"""kill -9 at any instant of a run whose state chooses between agents with a session each."""

from __future__ import annotations

import json
from typing import Any

from tests.crash.points import AGENT, assert_alike, assert_paid_once, killed

MACHINE = f"""
loopkit: 1
limits: {{revisions: 1}}
agents:
  planner: {{command: {json.dumps([*AGENT, "planner"])}, on_in_doubt: retry}}
  first: {{command: {json.dumps([*AGENT, "first"])}, on_in_doubt: retry, session: keep}}
  second: {{command: {json.dumps([*AGENT, "second"])}, on_in_doubt: retry, session: keep}}
  critic: {{command: {json.dumps([*AGENT, "critic"])}, on_in_doubt: retry}}
states:
  plan:
    agent: planner
    prompt: "Write a plan. {{{{ feedback }}}}"
    output: {{name: plan, fields: {{word: {{match: handwaving|good}}}}}}
    on_error: {{content: failed}}
    next: build
  build:
    agent: {{from: plan.word, of: {{handwaving: first, good: second}}}}
    prompt: "Build it: {{{{ plan }}}}"
    on_error: {{content: failed}}
    next: judge
  judge:
    validate: plan
    by: [{{judge: critic, rubric: [It is not vague.]}}]
    transitions:
      - {{guard: valid, target: done}}
      - {{revise: plan, feedback: "revision {{{{ revision }}}}"}}
      - {{target: failed}}
  done: {{final: success, result: [plan, build]}}
  failed: {{final: failure}}
"""
told = killed(MACHINE)


def test_the_unharmed_run_asks_each_of_them_once(told: Any) -> None:
    assert (told[0]["outcome"], told[0]["artifacts"]["build"]) == ("done", ["second ran\n", 2])
    assert told[0]["calls"] == told[0]["replies"] == 6


def test_after_resume_the_same_agents_have_been_asked(told: Any) -> None:
    assert_alike(told)
    assert_paid_once(told)
