"""kill -9 at any instant of a run that is repaired: it ends as if nothing had happened."""

from __future__ import annotations

import json
from typing import Any

from tests.crash.points import AGENT, assert_alike, assert_paid_once, begun, killed

MACHINE = f"""
loopkit: 1
input: {{n: {{type: int, minimum: 0, maximum: 3}}}}
limits: {{revisions: input.n, agent_calls: 30}}
agents:
  author: {{command: {json.dumps([*AGENT, "author"])}, on_in_doubt: retry}}
  critic: {{command: {json.dumps([*AGENT, "critic"])}, on_in_doubt: retry}}
  editor: {{command: {json.dumps([*AGENT, "editor"])}, on_in_doubt: retry}}
validators:
  form: {{min_chars: 20}}
  quality: {{judge: critic, rubric: [It is not vague.]}}
  tests: {{command: [sh, -c, "exit 5"]}}
states:
  draft:
    agent: author
    prompt: "Write a plan. {{{{ feedback }}}}"
    output: plan
    next: judge
  judge:
    validate: plan
    by: [form, quality]
    transitions:
      - {{guard: valid, target: test}}
      - {{guard: cap_reached, target: failed}}
      - revise: draft
        feedback: |
          revision {{{{ revision }}}}:
          {{% for f in findings %}}
          {{{{ f.message }}}}
          {{% endfor %}}
  test:
    validate: plan
    by: [quality, tests]
    transitions: [{{guard: valid, target: edit}}, {{target: failed}}]
  edit:
    {{agent: editor, prompt: Edit., output: text, next: ask, on_error: {{content: failed}}}}
  ask:
    human: Keep it?
    choices: [keep, drop]
    transitions: [{{guard: choice == "keep", target: done}}, {{target: failed}}]
  done: {{final: success, result: [plan, text]}}
  failed: {{final: failure}}
"""
MENDED = MACHINE.replace('"exit 5"', '"exit 0"').replace(
    "      - {guard: valid, target: test}",
    "      - {guard: attempt > 9, target: failed}\n      - {guard: valid, target: test}",
)
told = killed(MACHINE, answers="{ask: [keep]}", mended=MENDED)


def test_the_unharmed_run_is_repaired_once_and_ends(told: Any) -> None:
    unharmed = told[0]
    assert unharmed["outcome"] == "done"
    assert (unharmed["repairs"], unharmed["suspensions"]) == (1, 1)
    # What was revised before the repair counts for the transition where it stands now.
    assert unharmed["counters"] == {"revisions:draft": 2}
    # Three drafts, two opinions of the critic in `judge` and one in `test`, one edit.
    assert unharmed["calls"] == unharmed["replies"] == 7


def test_after_a_repair_a_killed_run_ends_like_the_unharmed_one(told: Any) -> None:
    assert_alike(told)
    for point in begun(told):
        assert point["repairs"] == 1, point


def test_no_committed_call_is_paid_twice_and_none_is_lost(told: Any) -> None:
    assert_paid_once(told)
