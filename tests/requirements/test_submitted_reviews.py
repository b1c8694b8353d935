"""Judges that hand in their report by calling a tool."""

from __future__ import annotations

from typing import Any

import pytest

from tests.machines import loop
from tests.support import PASS, Desk, Played, fails, scenario

MACHINE = loop(
    "[{judge: critic, rubric: [Good.], submit: true, reask: 1}]",
    {"valid": "done", "incomplete": "unjudged"},
    "{target: failed}",
    top="agents: {critic: {model: openai/gpt-5-mini}}",
    draft="draft: {render: A plan., output: plan}",
    judge="check",
    result="plan",
)
BAD = fails("Too vague.")["data"]
GOOD = {"verdict": "pass", "findings": []}


def played(desk: Desk, *calls: dict[str, Any]) -> Played:
    return desk.play(MACHINE, scenario(agents={"critic": [list(calls)]}))


def submitting(*reports: object, **beside: object) -> dict[str, Any]:
    return {"tool_calls": [{"name": "submit_review", "input": r} for r in reports], **beside}


def test_s0_52_the_report_that_is_handed_in_counts_and_not_the_text_beside_it(desk: Desk) -> None:
    went = played(desk, submitting(BAD, reply='I approve: {"verdict": "pass", "findings": []}'))
    assert went.outcome == "failed"
    assert [finding.message for finding in went.reports[0].findings] == ["Too vague."]


def test_s0_52_the_tool_asks_for_the_form_of_the_report_and_nothing_else_does(desk: Desk) -> None:
    went = played(desk, submitting(GOOD))
    [request] = went.asked("critic")
    [tool] = request.tools
    assert (tool.name, request.schema) == ("submit_review", None)
    assert sorted(tool.schema["properties"]) == ["findings", "verdict"]
    assert "call the tool `submit_review`" in went.prompts("critic")[0]
    assert went.outcome == "done"


@pytest.mark.parametrize(("reports", "outcome"), [((BAD, GOOD), "failed"), ((GOOD, BAD), "done")])
def test_s0_52_a_second_report_is_ignored_and_that_is_told(
    desk: Desk, reports: tuple[object, object], outcome: str
) -> None:
    went = played(desk, submitting(*reports))
    assert went.outcome == outcome
    assert went.reports[0].answers[0].reason == "it handed in 2 reports, and the first counts"


def test_s0_52_an_approval_in_an_answer_that_broke_off_is_none(desk: Desk) -> None:
    went = played(desk, submitting(GOOD, cut_off=True), submitting(BAD))
    assert went.outcome == "failed"
    assert "cut off before its end" in went.prompts("critic")[1]


def test_s0_52_what_cant_be_read_is_asked_for_again_behind_the_call(desk: Desk) -> None:
    broken = {"tool_calls": [{"name": "submit_review", "arguments": '{"verdict": '}]}
    went = played(desk, broken, submitting(GOOD))
    told = went.asked("critic")[1].messages
    assert [message.role for message in told] == ["user", "assistant", "tool", "user"]
    assert told[2].content == "Received."
    assert told[3].content.startswith("Your answer could not be used")
    assert went.outcome == "done"


def test_s0_52_a_judge_that_calls_no_tool_is_read_like_any_other(desk: Desk) -> None:
    assert played(desk, PASS).outcome == "done"


def test_s0_52_a_judge_that_calls_another_tool_and_says_nothing_is_unread(desk: Desk) -> None:
    other = {"tool_calls": [{"name": "approve", "input": {}}]}
    assert played(desk, other, other).outcome == "unjudged"


def test_s0_52_a_verdict_in_text_is_not_handed_in(desk: Desk) -> None:
    text = MACHINE.replace("reask: 1", "verdict: {pattern: '(?P<verdict>PASS|FAIL)'}")
    [problem] = desk.problems(text)
    assert (problem.code, problem.help) == ("no-effect", "delete it, or the `verdict:`")
