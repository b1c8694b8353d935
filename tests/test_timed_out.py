"""A program that was ended because it took too long may have done its work: it is in doubt."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pytest

from loopkit.engine.events import InDoubt, Intended, Worked
from tests.support import Desk, Played, console_lines, scenario

SLOW = """#!/bin/sh
echo >> started
test -e fast || sleep 60
echo '{"verdict": "pass", "findings": []}'
"""
MACHINE = """
loopkit: 1
ABOVE
states:
  draft: {WORK, output: post, on_error: ERRORS, next: done}
  done: {final: success}
  late: {final: failure}
  broken: {final: failure}
"""
PROGRAM = "agents: {w: {command: [./slow], price_per_run: 2, timeout: 500ms, retry: {attempts: 1}}}"
ASKED, ERRORS = "agent: w, prompt: Write.", "{transient: late, fatal: broken, content: done}"
KINDS = {
    "agent": (PROGRAM.replace("attempts: 1", "attempts: 3, backoff: 1ms"), ASKED),
    "once": (PROGRAM, ASKED),
    "run": ("", "run: [./slow], timeout: 500ms"),
    "tool": (
        "agents: {w: {model: a/b, tools: {look: {command: [./slow], timeout: 500ms}}}}",
        ASKED,
    ),
}
LOOKS = scenario(agents={"w": [[{"tool_calls": [{"name": "look", "input": {}}]}, "A post."]]})
JUDGE = f"""
loopkit: 1
{PROGRAM}
states:
  draft: {{render: A post., output: post, next: check}}
  check:
    validate: post
    by: [{{judge: w, rubric: [It is fine.]}}]
    on_error: broken
    transitions: [{{guard: valid, target: done}}, {{target: broken}}]
  done: {{final: success}}
  broken: {{final: failure}}
"""


def machine(kind: str, on_in_doubt: str = "") -> str:
    if kind == "judge":
        return JUDGE
    above, work = KINDS[kind]
    errors = ERRORS.replace(", content: done", "") if kind == "run" else ERRORS
    text = MACHINE.replace("ABOVE", above).replace("WORK", work).replace("ERRORS", errors)
    policy = f", on_in_doubt: {on_in_doubt}" if on_in_doubt else ""
    return text.replace("timeout: 500ms", f"timeout: 500ms{policy}")


def play(
    desk: Desk, kind: str, on_in_doubt: str = "", limits: Mapping[str, float] | None = None
) -> Played:
    desk.write("slow", SLOW).chmod(0o755)
    return desk.play(machine(kind, on_in_doubt), LOOKS if kind == "tool" else None, limits=limits)


def starts(desk: Desk) -> int:
    return (desk.folder / "started").read_text().count("\n")


@pytest.mark.parametrize("kind", [*KINDS, "judge"])
def test_a_person_is_told_why_and_decides_whether_it_is_started_again(
    durable: Desk, kind: str
) -> None:
    asked = play(durable, kind)
    assert (asked.state.status, starts(durable)) == ("waiting", 1)
    [question] = asked.questions
    name = {"run": "draft", "tool": "w.look"}.get(kind, "w")
    assert question.text.startswith(f"The call of `{name}`")
    assert "was ended, because it took longer than 0.5 s, so it may have done" in question.text
    assert "because it took longer than 0.5 s: a person decides" in "\n".join(console_lines(asked))
    used = asked.state.usage
    assert (used.time_s >= 0.5, used.held_usd) == (True, 2.0 if name == "w" else 0.0)
    failed = durable.answer(asked.state.run, "fail")
    assert (failed.outcome, starts(durable)) == ("broken", 1)
    asked = play(durable, kind)
    durable.write("fast", "")
    assert durable.answer(asked.state.run, "retry").outcome == "done"
    assert starts(durable) == 3


@pytest.mark.parametrize("kind", KINDS)
def test_with_fail_nobody_is_asked_and_the_error_says_why(desk: Desk, kind: str) -> None:
    failed = play(desk, kind, "fail")
    assert (failed.outcome, starts(desk), failed.questions) == ("broken", 1, [])
    errors = [event.error for event in failed.of(Worked)]
    assert "in doubt and is not made again: it took longer than 0.5 s" in errors[-1]


@pytest.mark.parametrize(("kind", "count"), [("agent", 3), ("once", 1), ("run", 1)])
def test_with_retry_it_is_a_transient_error(desk: Desk, kind: str, count: int) -> None:
    late = play(desk, kind, "retry")
    assert (late.outcome, starts(desk), late.questions) == ("late", count, [])


@pytest.mark.parametrize(("on_in_doubt", "ends"), [("", "waiting"), ("fail", "finished")])
@pytest.mark.parametrize("kind", KINDS)
def test_one_that_a_limit_of_time_ended_is_in_doubt_when_the_run_goes_on(
    durable: Desk, kind: str, on_in_doubt: str, ends: str
) -> None:
    stopped = play(durable, kind, on_in_doubt, {"time": 0.2})
    assert stopped.state.suspended is not None
    assert (stopped.state.suspended.reason, stopped.questions) == ("limit", [])
    resumed = durable.resume(stopped.state.run, {"time": 60.0})
    assert (resumed.state.status, starts(durable)) == (ends, 1)
    for question in resumed.questions:
        assert re.search("because the limit `time` left it 0.[012][0-9]* s,", question.text)


def test_nobody_is_asked_about_one_that_a_limit_with_an_edge_has_ended(desk: Desk) -> None:
    desk.write("slow", SLOW).chmod(0o755)
    played = desk.play(machine("run") + "limits: {time: 200ms, then: late}\n")
    assert (played.outcome, played.questions, played.of(InDoubt)) == ("late", [], [])


@pytest.mark.parametrize("call", [{"fault": "timeout"}, {"reply": "A post.", "delay": "1s"}])
def test_a_scenario_plays_it_as_it_is_and_what_follows(durable: Desk, call: dict[str, str]) -> None:
    of_agent = scenario(agents={"w": [[call, "A post."]]})
    of_run = scenario(commands={"draft": [{"fault": "timeout"}, {"stdout": "A post."}]})
    for kind, script in (("agent", of_agent), ("run", of_run)):
        asked = durable.play(machine(kind), script)
        assert (asked.state.status, len(asked.of(Intended))) == ("waiting", 1)
        assert "longer than 0.5 s" in asked.questions[0].text
        assert durable.answer(asked.state.run, "retry").outcome == "done"
