"""Calls of one state that fit one after the other: who waits for room, for whom and how long."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from loopkit.agents.port import Crashed, Reply, Request
from loopkit.drive.active import ActiveRun
from loopkit.engine.changes import apply
from loopkit.engine.events import Failed, Intended, Replied, Suspended
from loopkit.engine.state import RunState
from tests.machines import loop
from tests.support import PASS, Desk, Played, fails, scenario

MACHINE = loop(
    "JUDGES",
    {"valid": "accepted"},
    "{target: refused}",
    top="""
limits: {LIMITS}
agents:
  author: {model: some/model}
  first: {model: some/model, retry: {attempts: 2, backoff: 1ms}}
  second: {model: some/model}
  third: {model: some/model}
""",
)
PANEL = "[{judge: first}, {judge: second}, {judge: third}]"
SAMPLES = "[{judge: first, samples: 3}]"
CHEAP = {"cost_usd": 0.0001, "reserved": {"cost_usd": 0.9, "tokens": 9000}}
JUDGED = {**PASS, **CHEAP, "usage": {"total": 10}, "delay": "5ms"}


def reserving(usd: float, **parts: Any) -> dict[str, Any]:
    """A judge's call that reserves so much and costs next to nothing."""
    return {**JUDGED, "reserved": {"cost_usd": usd, "tokens": int(usd * 10_000)}, **parts}


def text(limits: str, judges: str = PANEL) -> str:
    return MACHINE.replace("LIMITS", limits).replace("JUDGES", judges)


def said(**judges: list[Any]) -> str:
    author = [{"reply": "plan", "cost_usd": 0.0002, "usage": {"total": 20}}]
    parts = {name: [reserving(0.9)] for name in ("first", "second", "third")}
    return scenario(agents={"author": author, **parts, **judges})


def states(played: Played) -> list[RunState]:
    """What the run had come to behind each of its events."""
    found: list[RunState] = []
    state = RunState()
    for event in played.events:
        apply(state, event)
        held = RunState(usage=state.usage, open_calls=dict(state.open_calls))
        found.append(held)
    return found


def most_in_flight(played: Played) -> int:
    return max(len(state.open_calls) for state in states(played))


@pytest.mark.parametrize(
    ("limits", "at_once"),
    [
        ("cost_usd: 1", 1),
        ("cost_usd: 2", 2),
        ("cost_usd: 9", 3),
        ("tokens: 10000", 1),
        ("tokens: 20000", 2),
        ("tokens: 20000, cost_usd: 1", 1),
    ],
)
@pytest.mark.parametrize("judges", [PANEL, SAMPLES])
def test_those_that_fit_one_after_the_other_are_all_asked(
    desk: Desk, limits: str, at_once: int, judges: str
) -> None:
    samples = [reserving(0.9)] * 3
    script = said(first=samples) if judges == SAMPLES else said()
    played = desk.play(text(limits, judges), script)
    assert (played.outcome, len(played.of(Replied))) == ("accepted", 4)
    assert most_in_flight(played) == at_once
    usd, tokens = (desk_limit(limits, name) for name in ("cost_usd", "tokens"))
    for state in states(played):
        assert (state.committed.cost_usd or 0.0) <= usd
        assert state.committed.tokens <= tokens


def desk_limit(limits: str, name: str) -> float:
    found = [part.partition(":")[2] for part in limits.split(",") if part.strip().startswith(name)]
    return float(found[0]) if found else float("inf")


def test_they_are_asked_in_order_though_a_later_one_would_fit(desk: Desk) -> None:
    script = said(first=[reserving(0.6)], second=[reserving(0.6)], third=[reserving(0.1)])
    played = desk.play(text("cost_usd: 1"), script)
    assert [intent.agent for intent in played.of(Intended)[1:]] == ["first", "second", "third"]
    seen = [event.type for event in played.events if isinstance(event, (Intended, Replied))]
    assert seen[2:] == ["intended", "replied", "intended", "intended", "replied", "replied"]


def test_a_failure_lets_the_next_one_in_and_its_next_try_comes_after_it(desk: Desk) -> None:
    refused = {"fault": "rate_limit", "cost_usd": 0, "reserved": CHEAP["reserved"]}
    played = desk.play(text("cost_usd: 1"), said(first=[[refused, reserving(0.9)]]))
    assert played.outcome == "accepted"
    assert len(played.of(Failed)) == 1
    assert [intent.agent for intent in played.of(Intended)[1:3]] == ["first", "second"]
    assert most_in_flight(played) == 1


def test_what_the_others_really_took_is_a_limit(desk: Desk) -> None:
    dear = [reserving(0.9, cost_usd=0.4)]
    played = desk.play(text("cost_usd: 1"), said(first=dear, second=dear))
    [suspended] = played.of(Suspended)
    assert suspended.reason == "limit"
    assert suspended.message == (
        "the limit `cost_usd` leaves no room: $0.4002 of $1.0000 used, "
        "and the next call can take up to $0.9000"
    )
    assert len(played.of(Replied)) == 2


def test_one_that_can_never_fit_waits_for_nobody(desk: Desk) -> None:
    """Used and held are told apart: nothing is wrong with what was used."""
    played = desk.play(text("cost_usd: 2"), said(second=[reserving(2.5)], third=[reserving(0.5)]))
    [suspended] = played.of(Suspended)
    assert suspended.message == (
        "the limit `cost_usd` leaves no room: $0.0002 of $2.0000 used, up to $0.9000 held, "
        "and the next call can take up to $2.5000"
    )
    assert [request.agent for request in played.requests] == ["author", "first", "third"]
    refused = desk.play(text("agent_calls: 2, cost_usd: 1"), said()).of(Suspended)
    assert refused[0].message.startswith("the limit `agent_calls` leaves no room: 2 of 2")


def test_what_is_in_doubt_counts_as_used_and_nobody_waits_for_it(durable: Desk) -> None:
    machine = text("cost_usd: 1.5")
    stopped = durable.abort(machine, said(), in_call=2)
    assert len(stopped.state.open_calls) == 1
    played = durable.resume(stopped.state.run)
    [suspended] = played.of(Suspended)
    assert suspended.message == (
        "the limit `cost_usd` leaves no room: $0.0002 of $1.5000 used, up to $0.9000 held, "
        "and the next call can take up to $0.9000"
    )
    assert "--max-cost 3.00" in suspended.remedy
    ended = durable.resume(stopped.state.run, {"cost_usd": 1.9})
    assert ended.outcome == "accepted"
    assert most_in_flight(ended) == 1
    assert [reply.usage.agent_calls for reply in ended.of(Replied)] == [1] * 4
    assert ended.state.usage.held_usd == pytest.approx(0.9)


@pytest.mark.parametrize("at", [2, 3, 4])
def test_who_waits_when_the_process_dies_is_asked_by_the_next_one(durable: Desk, at: int) -> None:
    """Only what was asked is in doubt, and what was answered is not asked again."""
    stopped = durable.abort(text("cost_usd: 1"), said(), in_call=at)
    assert (len(stopped.of(Replied)), len(stopped.state.open_calls)) == (at - 1, 1)
    played = durable.resume(stopped.state.run, {"cost_usd": 1.9})
    assert played.outcome == "accepted"
    assert len(played.requests) == 5 - at
    assert most_in_flight(played) == 1


def test_a_defect_of_one_is_not_waited_for_and_is_what_is_told(desk: Desk) -> None:
    refused = {"fault": "rate_limit", "cost_usd": 0, "reserved": CHEAP["reserved"]}
    crash = {"fault": "crash", "delay": "100ms", "reserved": CHEAP["reserved"]}
    with pytest.raises(Crashed):
        desk.play(text("cost_usd: 1"), said(first=[[refused, reserving(0.9)]], second=[[crash]]))


def test_a_stopped_run_asks_none_of_those_that_wait(
    durable: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is in flight comes back and is kept; a resume asks the others."""
    runs: list[ActiveRun] = []

    class Stopping:
        """The first judge, while which is asked somebody presses Ctrl-C."""

        def __init__(self, port: Any) -> None:
            self.port = port
            self.ready, self.quote = port.ready, port.quote

        async def ask(self, request: Request) -> Reply:
            await asyncio.sleep(0.02)
            runs[0].stop()
            await asyncio.sleep(0.02)
            reply: Reply = await self.port.ask(request)
            return reply

    drive = durable._drive

    async def stopping(app: Any, active: ActiveRun, hang_at: int) -> Played:
        runs.append(active)
        active.agents = {**active.agents, "first": Stopping(active.agents["first"])}
        return await drive(app, active, hang_at)

    monkeypatch.setattr(durable, "_drive", stopping)
    stopped = durable.play(text("cost_usd: 1"), said())
    assert [event.reason for event in stopped.of(Suspended)] == ["interrupted"]
    assert len(stopped.of(Replied)) == len(stopped.of(Intended)) == 2
    monkeypatch.setattr(durable, "_drive", drive)
    played = durable.resume(stopped.state.run)
    assert (played.outcome, len(played.requests)) == ("accepted", 2)


def test_a_judge_that_is_asked_again_takes_its_place_behind_the_others(desk: Desk) -> None:
    unread = reserving(0.9)
    del unread["data"]
    asked = [[{**unread, "reply": "Hm."}, reserving(0.9)]]
    played = desk.play(
        text("cost_usd: 1", "[{judge: first, reask: 1}, {judge: second}, {judge: third}]"),
        said(first=asked, second=[{**reserving(0.9), **fails("It lacks a word.")}]),
    )
    assert played.outcome == "refused"
    order = [intent.agent for intent in played.of(Intended)[1:]]
    assert order == ["first", "second", "third", "first"]
