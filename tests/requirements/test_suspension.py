"""Stopping and going on: the exact state, nothing paid twice, calls in doubt, one owner."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from loopkit.agents.port import Crashed
from loopkit.app import App
from loopkit.drive.answers import AnswerRefused
from loopkit.engine.events import InDoubt, Intended, Settled
from loopkit.engine.payloads import HumanAnswer
from tests.machines import loop
from tests.support import PASS, Desk, fails, scenario
from tests.warm import Process

MACHINE = loop(
    "[{judge: critic}]",
    {"valid": "accepted", "cap_reached": "refused"},
    '{revise: draft, feedback: "{{ findings[0].message }}"}',
    top="""
agents:
  author: {model: some/model, IN_DOUBT retry: {attempts: 2, backoff: 1ms}}
  critic: {model: some/model, retry: {attempts: 1}}
""",
    result="plan",
)
SCRIPT = scenario(agents={"author": ["p1", "p2"], "critic": [fails("A"), PASS]})
COST = {"cost_usd": 0.25, "usage": {"input": 10, "output": 10}}


def machine(in_doubt: str = "") -> str:
    return MACHINE.replace("IN_DOUBT ", f"on_in_doubt: {in_doubt}, " if in_doubt else "")


@pytest.mark.parametrize("calls", [1, 2, 3])
def test_a_run_goes_on_where_it_stopped(durable: Desk, calls: int) -> None:
    whole = durable.play(machine(), SCRIPT)
    stopped = durable.play(machine(), SCRIPT, limits={"agent_calls": calls})
    assert stopped.state.status == "suspended"
    played = durable.resume(stopped.state.run, limits={"agent_calls": 9})
    assert played.result == {"plan": "p2"}
    assert len(played.requests) == 4 - calls
    for part in ("counters", "attempts", "route", "rounds", "visits"):
        assert getattr(played.state, part) == getattr(whole.state, part)


def test_a_stopped_run_is_in_the_journal_exactly_as_it_was(durable: Desk) -> None:
    stopped = durable.play(machine(), SCRIPT, limits={"agent_calls": 3})
    assert stopped.folded == stopped.state
    again = durable.resume(stopped.state.run)
    assert again.requests == []
    # The time apart that judging by rules takes anew.
    assert again.state.suspended is not None
    assert stopped.state.suspended is not None
    for one, other in (
        (again.state.usage, stopped.state.usage),
        (again.state.suspended, stopped.state.suspended),
    ):
        assert one.replace(time_s=0.0) == other.replace(time_s=0.0)


PRICED = scenario(agents={"author": [{"reply": "p1", **COST}], "critic": [{**PASS, **COST}]})


def test_a_call_in_doubt_to_a_model_is_made_again_and_stays_charged(durable: Desk) -> None:
    aborted = durable.abort(machine(), PRICED)
    played = durable.resume(aborted.state.run)
    assert [event.policy for event in played.of(InDoubt)] == ["retry"]
    assert played.outcome == "accepted"
    assert played.state.usage.agent_calls == 3
    assert played.state.usage.cost_usd == pytest.approx(0.75)
    lost, again, judging = (event.key for event in played.of(Intended))
    assert lost == again == f"{played.state.run}:draft:1:author:1@some/model" != judging


def test_a_call_in_doubt_spends_the_retry_budget(durable: Desk) -> None:
    calls: list[Any] = [[{"fault": "timeout"}, "p1"]]
    aborted = durable.abort(machine(), scenario(agents={"author": calls, "critic": [PASS]}))
    played = durable.resume(aborted.state.run)
    assert played.state.suspended is not None
    assert "2 tries" in played.state.suspended.message


def test_a_call_in_doubt_counts_in_the_limits(durable: Desk) -> None:
    aborted = durable.abort(machine(), PRICED)
    played = durable.resume(aborted.state.run, limits={"cost_usd": 0.3})
    assert played.state.suspended is not None
    assert played.state.suspended.reason == "limit"
    assert played.requests == []


def test_a_call_in_doubt_can_count_as_failed(durable: Desk) -> None:
    played = durable.resume(durable.abort(machine("fail"), SCRIPT).state.run)
    assert played.requests == []
    assert played.state.suspended is not None
    assert (played.state.suspended.reason, played.state.suspended.state) == ("fatal", "draft")
    assert "in doubt" in played.state.suspended.message


def test_after_a_failed_doubt_a_resume_makes_the_call_again(durable: Desk) -> None:
    """Nothing but a person's `resume` does."""
    failed = durable.resume(durable.abort(machine("fail"), SCRIPT).state.run)
    assert durable.resume(failed.state.run).outcome == "accepted"


@pytest.mark.parametrize(("choice", "outcome"), [("retry", "accepted"), ("fail", None)])
def test_a_person_can_be_asked_about_a_call_in_doubt(
    durable: Desk, choice: str, outcome: str | None
) -> None:
    asked = durable.resume(durable.abort(machine("ask"), SCRIPT).state.run)
    assert asked.state.status == "waiting"
    assert "`author`" in asked.questions[-1].text
    assert [option.name for option in asked.questions[-1].choices] == ["retry", "fail"]
    assert asked.requests == []
    played = durable.answer(asked.state.run, choice)
    assert [event.choice for event in played.of(Settled)] == [choice]
    assert played.outcome == outcome


def test_a_call_that_is_in_doubt_again_is_asked_about_again(durable: Desk) -> None:
    twice = scenario(agents={"author": [[CRASH, CRASH, "p1"]], "critic": [PASS]})
    with pytest.raises(Crashed):
        durable.play(machine("ask"), twice)
    [run] = asyncio.run(listed(durable))
    [first] = durable.resume(run).questions
    with pytest.raises(Crashed):
        durable.answer(run, "retry")
    [_, second] = durable.resume(run).questions
    assert first.call == second.call is not None
    with pytest.raises(AnswerRefused, match="no longer open"):
        asyncio.run(posted(durable, run, first.question))
    played = durable.answer(run, "retry", by="another")
    assert played.outcome == "accepted"
    assert len({event.key for event in played.of(Intended) if event.agent == "author"}) == 1


CRASH = {"fault": "crash"}


async def listed(desk: Desk) -> list[str]:
    app = App.open(desk.state_folder)
    try:
        return [row.run for row in await app.journal.runs()]
    finally:
        await app.close()


async def posted(desk: Desk, run: str, question: str) -> None:
    app = App.open(desk.state_folder)
    try:
        await app.post(run, HumanAnswer(choice="fail"), question)
    finally:
        await app.close()


def test_a_doubt_has_no_other_answers(durable: Desk) -> None:
    asked = durable.resume(durable.abort(machine("ask"), SCRIPT).state.run)
    with pytest.raises(AnswerRefused, match="`retry`, `fail`"):
        durable.answer(asked.state.run, "maybe")


KILLING = """
loopkit: 1
states:
  work: {run: [sh, -c, 'test -e started && echo -n again > started || TOUCH'], next: done}
  done: {final: success}
""".replace("TOUCH", "{ touch started; kill -9 $PPID; }")


def test_the_command_of_a_run_state_is_not_started_again_without_asking(durable: Desk) -> None:
    durable.write("machine.yaml", KILLING)
    killed = command(durable.folder, "run", "machine.yaml")
    assert killed.wait(timeout=60) == -signal.SIGKILL
    asked = durable.resume(asyncio.run(only_run(durable)))
    assert [event.policy for event in asked.of(InDoubt)] == ["ask"]
    assert asked.state.status == "waiting"
    assert durable.answer(asked.state.run, "retry").outcome == "done"
    assert (durable.folder / "started").read_text() == "again"


UNFILLED = loop(
    "[{min_chars: 20}]",
    {"valid": "accepted", "cap_reached": "refused"},
    '{revise: draft, feedback: "FEEDBACK"}',
    top="""
initial: start
input: {parts: {type: int, default: 0, minimum: 0, maximum: 9}}
limits: {revisions: 1}
agents: {author: {model: some/model}}
""",
    ends='start: {human: "START", choices: [go], next: draft}',
)


@pytest.mark.parametrize(
    ("start", "feedback", "state", "calls"),
    [
        ("{{ 12 / input.parts }} parts?", "Again.", "start", 0),
        ("Go?", "In {{ 12 / input.parts }} parts, please.", "judge", 1),
    ],
    ids=["question", "feedback"],
)
def test_a_text_that_cannot_be_filled_in_suspends_and_says_why(
    durable: Desk, start: str, feedback: str, state: str, calls: int
) -> None:
    """And what was answered before it is kept."""
    text = UNFILLED.replace("START", start).replace("FEEDBACK", feedback)
    script = scenario(agents={"author": ["short"]}, answers={"start": ["go"]})
    stopped = durable.play(text, script)
    for played in (stopped, durable.resume(stopped.state.run)):
        assert played.state.suspended is not None
        assert (played.state.suspended.reason, played.state.suspended.state) == ("fatal", state)
        assert "division by zero" in played.state.suspended.message
        assert len(played.of(Intended)) == calls


def test_an_answer_that_leads_to_such_a_text_is_refused(durable: Desk) -> None:
    sure = '{human: "{{ 1 / input.parts }}", choices: [go], next: draft}'
    text = UNFILLED.replace("START", "Go?").replace("FEEDBACK", "Again.")
    text = text.replace("next: draft}\n", f"next: sure}}\n  sure: {sure}\n")
    waiting = durable.play(text, scenario(agents={"author": []}))
    with pytest.raises(AnswerRefused, match="division by zero"):
        durable.answer(waiting.state.run, "go")
    assert durable.resume(waiting.state.run).state.status == "waiting"


def command(folder: Path, *arguments: str) -> Process:
    environment = {**os.environ, "LOOPKIT_STATE": str(folder / ".loopkit")}
    return Process(["-m", "loopkit", *arguments], cwd=folder, env=environment)


async def only_run(durable: Desk) -> str:
    """The id of the run in the desk's journal."""
    app = App.open(durable.state_folder)
    try:
        [known] = await app.journal.runs()
        return known.run
    finally:
        await app.close()
