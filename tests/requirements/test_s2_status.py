"""S2: the status of a whole pipeline, and the same decisions whichever way it is run."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

import loopkit
from tests.machines import loop
from tests.support import Desk, fails, scenario, warns

PIPELINE = loop(
    "[{judge: critic, rubric: [It is right.]}]",
    {"incomplete": "needs_review", "valid": "status"},
    "{revise: draft, max: 1}",
    "{target: failed}",
    top="agents: {writer: {model: openai/gpt-5-mini}, critic: {model: openai/gpt-5-mini}}",
    draft='draft: {agent: writer, prompt: "Write. {{ feedback }}", output: text}',
    judge="review",
    ends="""
status:
  transitions:
    - {guard: review.verdict == "warn", target: conditional_pass}
    - {target: passed}
passed: {final: success, result: text}
conditional_pass: {final: success, result: text}
needs_review: {final: failure, result: text}
failed: {final: failure, result: text}
""",
)
PASSES: dict[str, Any] = {"data": {"verdict": "pass", "findings": []}}


@pytest.mark.parametrize(
    ("answers", "status"),
    [
        ([PASSES], "passed"),
        ([warns("It is long.")], "conditional_pass"),
        ([fails("It is wrong."), fails("It is wrong.")], "failed"),
        ([{"fault": "quota"}], "needs_review"),
    ],
)
def test_s2_36_the_status_of_the_whole_follows_by_rule_from_the_verdicts(
    answers: list[dict[str, Any]], status: str, desk: Desk
) -> None:
    script = scenario(agents={"writer": ["A", "B"][: len(answers)], "critic": answers})
    assert desk.play(PIPELINE, script).outcome == status


def test_s2_48_a_machine_decides_the_same_whether_it_is_run_or_awaited(desk: Desk) -> None:
    machine = desk.write("pipeline.yaml", PIPELINE)

    def writer(prompt: str, _: object) -> str:
        return "B" if "wrong" in prompt else "A"

    async def critic(prompt: str, _: object) -> str:
        await asyncio.sleep(0)
        found = [] if "B" in prompt else [{"message": "It is wrong.", "severity": "error"}]
        return json.dumps({"verdict": "fail" if found else "pass", "findings": found})

    agents = {"writer": writer, "critic": critic}
    ran = loopkit.run(machine, agents=agents, state=desk.folder / "ran")
    awaited = asyncio.run(loopkit.arun(machine, agents=agents, state=desk.folder / "awaited"))
    told = [(one.outcome, one.result, one.usage.agent_calls) for one in (ran, awaited)]
    assert told == [("passed", {"text": "B"}, 4)] * 2
