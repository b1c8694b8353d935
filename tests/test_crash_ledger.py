"""kill -9 at any instant while a judge is asked about what it found before."""

from __future__ import annotations

import json
from typing import Any

from tests.crash.points import AGENT, assert_alike, begun, killed
from tests.test_crash_panels import SAME

MACHINE = f"""
loopkit: 1
input: {{n: {{type: int, minimum: 0, maximum: 3}}}}
limits: {{revisions: input.n, agent_calls: 60}}
agents:
  author: {{command: {json.dumps([*AGENT, "author"])}, on_in_doubt: retry}}
  reviewer: {{command: {json.dumps([*AGENT, "reviewer"])}, on_in_doubt: retry}}
states:
  draft: {{agent: author, prompt: "Write a plan. {{{{ feedback }}}}", output: plan, next: judge}}
  judge:
    validate: plan
    by: [{{judge: reviewer, rubric: [It is not vague.]}}]
    transitions:
      - {{guard: valid, target: done}}
      - {{guard: cap_reached, target: failed}}
      - {{revise: draft, feedback: "revision {{{{ revision }}}}"}}
  done: {{final: success, result: plan}}
  failed: {{final: failure}}
"""
told = killed(MACHINE)


def test_the_unharmed_reviewer_calls_its_finding_open_and_adds_one(told: Any) -> None:
    first, second, third = told[0]["findings"]
    assert [status for _, status in first] == ["new"]
    assert [status for _, status in second] == ["new", "recurring"]
    assert first[0][0] == second[1][0]
    assert (third, told[0]["outcome"]) == ([], "done")


def test_after_resume_the_ids_and_what_became_of_them_are_those_of_the_unharmed_run(
    told: Any,
) -> None:
    """S2.28"""
    assert_alike(told, SAME)
    for point in begun(told):
        assert point["replies"] == told[0]["replies"]
