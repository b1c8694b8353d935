"""When a failed call is tried again: the waits, who is told, and when a run gives up."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence

import pytest

from loopkit.agents.port import NotRunnable
from loopkit.app import App
from loopkit.drive.breakers import PROBE_S, Breakers, rates_in
from loopkit.engine.events import Failed, Held, Intended
from loopkit.language.load import load
from tests.support import Desk, Played, QuickClock, scenario

MACHINE = """
loopkit: 1
agents: {author: {model: some/model, retry: {attempts: 4, backoff: 2s, max_backoff: 60s}}}
states:
  draft: {agent: author, prompt: Write., output: plan, on_error: {content: failed}, next: done}
  done: {final: success, result: plan}
  failed: {final: failure}
"""
LIMITED = {"fault": "rate_limit"}


@pytest.fixture
def clock(desk: Desk) -> QuickClock:
    desk.clock = QuickClock()
    return desk.clock


def played(desk: Desk, *calls: object, machine: str = MACHINE) -> Played:
    return desk.play(machine, scenario(agents={"author": [list(calls)]}))


def waits(run: Played) -> list[float]:
    """Seconds from each failure to the next try, as the events have them."""
    failures = [stored for stored in run.stored if isinstance(stored.event, Failed)]
    return [
        stored.event.retry_at - stored.at
        for stored in failures
        if stored.event.retry_at is not None
    ]


def rising(found: Sequence[float], *least: float) -> bool:
    """Whether waits are at least these, and by a quarter of the first more at most."""
    pairs = zip(found, least, strict=True)
    return all(low - 0.1 <= wait <= low + least[0] / 4 for wait, low in pairs)


def test_waits_double_and_vary_so_that_runs_do_not_retry_in_step(
    desk: Desk, clock: QuickClock
) -> None:
    """S1.53: exponential, capped, with jitter."""
    found = [waits(played(desk, LIMITED, LIMITED, LIMITED, "A plan.")) for _ in range(3)]
    assert all(rising(run, 2, 4, 8) for run in found)
    assert len({run[0] for run in found}) == 3


def test_a_wait_is_never_longer_than_the_longest(desk: Desk, clock: QuickClock) -> None:
    text = MACHINE.replace("max_backoff: 60s", "max_backoff: 3s")
    found = waits(played(desk, LIMITED, LIMITED, LIMITED, "A plan.", machine=text))
    assert len(found) == 3
    assert max(found) <= 3


def test_a_provider_that_names_a_wait_is_not_asked_before(desk: Desk, clock: QuickClock) -> None:
    run = played(desk, {**LIMITED, "retry_after": "30s"}, "A plan.")
    assert run.outcome == "done"
    assert waits(run)[0] == pytest.approx(30, abs=0.1)
    assert clock.slept == [pytest.approx(30, abs=0.5)]


def test_a_provider_that_names_no_wait_worth_the_name_is_not_hammered(
    desk: Desk, clock: QuickClock
) -> None:
    run = played(desk, {**LIMITED, "retry_after": "0s"}, "A plan.")
    assert waits(run)[0] >= 1.9


def test_a_wait_that_is_too_long_suspends_at_once_and_says_until_when(
    desk: Desk, clock: QuickClock
) -> None:
    """S1.51: paused until the time that the provider names."""
    run = played(desk, {**LIMITED, "retry_after": "2h"}, "A plan.")
    assert run.state.suspended is not None
    assert run.state.suspended.reason == "transient"
    assert run.state.suspended.resume_at == pytest.approx(clock.time + 7200, abs=5)
    assert clock.slept == []
    assert len(run.of(Intended)) == 1


def test_tries_that_are_used_up_keep_the_time_that_the_provider_named(
    desk: Desk, clock: QuickClock
) -> None:
    run = played(desk, LIMITED, LIMITED, LIMITED, {**LIMITED, "retry_after": "50s"})
    assert run.state.suspended is not None
    assert run.state.suspended.resume_at == pytest.approx(clock.time + 50, abs=1)
    assert "(4 tries)" in run.state.suspended.message


def test_a_judge_that_is_held_off_says_until_when(desk: Desk, clock: QuickClock) -> None:
    check = "check: {validate: plan, by: [{judge: author, rubric: [Good.]}], transitions: [OUT]}"
    check = check.replace("OUT", "{guard: valid, target: done}, {target: failed}")
    text = MACHINE.replace("on_error: {content: failed}, next: done", "next: check")
    text = text.replace("  done:", f"  {check}\n  done:")
    quota = {"fault": "rate_limit", "retry_after": "3h"}
    run = desk.play(text, scenario(agents={"author": ["A plan.", [quota]]}))
    assert run.state.suspended is not None
    assert run.state.suspended.resume_at == pytest.approx(clock.time + 10_800, abs=5)


def test_the_waits_of_a_resumed_run_go_on_where_they_were(durable: Desk) -> None:
    durable.clock = QuickClock()
    calls = scenario(agents={"author": [[LIMITED, LIMITED, {"reply": "A plan.", "delay": "0s"}]]})
    aborted = durable.abort(MACHINE, calls, in_call=2)
    assert len(aborted.of(Failed)) == 1
    resumed = durable.resume(aborted.state.run)
    # The second call is in doubt, so the third is the second known failure: it waits 2·2·2 s.
    assert rising(waits(resumed)[1:], 8) or waits(resumed)[1:] == []
    assert resumed.outcome == "done"


def test_a_secret_of_another_provider_that_an_error_tells_is_not_kept(
    desk: Desk, clock: QuickClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_OTHER_API_KEY", "another-secret-of-ours")
    run = played(desk, {"fault": "quota", "message": "no: another-secret-of-ours"})
    told = "".join(event.to_json() for event in run.events[2:])
    assert "another-secret-of-ours" not in told
    assert told.count("[SOME_OTHER_API_KEY]") == 2


async def _side_by_side(desk: Desk, runs: int) -> list[Played]:
    """Runs of one process over a provider that failed three times, and then answers the first."""
    app = App.open(None, breakers=Breakers(threshold=3, cooldown_s=1.5))
    loaded = load(desk.write("machine.yaml", MACHINE.replace("backoff: 2s", "backoff: 1ms")))
    down = {"fault": "server_error"}
    # Whoever tries it takes its time, so that the others are there to wait.
    slow = {"reply": "A plan.", "delay": "200ms"}
    first = desk.script(scenario(agents={"author": [[down, down, down, slow]]}))
    other = desk.script(scenario(agents={"author": [[slow]]}))
    active = [await app.start(loaded, {}, first)]
    active += [await app.start(loaded, {}, other) for _ in range(runs - 1)]
    driving = [asyncio.create_task(app.drive(active[0]))]
    while app.breakers.failures("some") < 3:  # noqa: ASYNC110 - it has no event to wait for
        await asyncio.sleep(0.01)
    driving += [asyncio.create_task(app.drive(run)) for run in active[1:]]
    await asyncio.gather(*driving)
    told = [Played(run.state, await app.events(run.state.run), desk.folder) for run in active]
    await app.close()
    return told


def test_while_one_call_tries_a_provider_that_was_down_the_others_wait(desk: Desk) -> None:
    runs = asyncio.run(_side_by_side(desk, 4))
    assert {run.outcome for run in runs} == {"done"}
    assert all(len(run.of(Held)) == 1 for run in runs)
    calls = sorted(
        stored.at for run in runs for stored in run.stored if isinstance(stored.event, Intended)
    )
    probe, *others = calls[3:]
    assert probe - calls[2] >= 1.4
    assert min(others) - probe >= PROBE_S - 0.1


def test_an_answer_makes_a_provider_as_good_as_new(desk: Desk, clock: QuickClock) -> None:
    """S1.52: success resets the count."""
    desk.breakers = Breakers(threshold=4)
    down = {"fault": "server_error"}
    for _ in range(2):
        run = played(desk, down, down, down, "A plan.")
        assert run.outcome == "done"
        assert run.of(Held) == []


def test_a_call_that_was_aborted_while_it_tried_a_provider_keeps_nobody_waiting(
    desk: Desk,
) -> None:
    desk.breakers = Breakers(threshold=1, cooldown_s=0)
    text = MACHINE.replace("attempts: 4, backoff: 2s, max_backoff: 60s", "attempts: 1, RETRY")
    text = text.replace("RETRY", "max_backoff: 500ms")
    played(desk, {"fault": "server_error"}, machine=text)
    desk.abort(text, scenario(agents={"author": ["A plan."]}))
    assert played(desk, "A plan.", machine=text).outcome == "done"


async def test_a_probe_that_nobody_answered_for_lets_the_next_one_try() -> None:
    breakers = Breakers(threshold=1, cooldown_s=10)
    await breakers.record_failure("p", now=0)
    assert await breakers.seconds_to_wait("p", now=11) == 0
    assert await breakers.seconds_to_wait("p", now=11) == PROBE_S
    await breakers.release_probe("p")
    assert await breakers.seconds_to_wait("p", now=11) == 0


async def test_rates_hold_calls_back_that_are_too_many_at_once_or_in_a_minute() -> None:
    breakers, clock, sent = Breakers(rates=rates_in("p=2, q = 8/min, r=9 60/min")), QuickClock(), []
    at_once: Counter[str] = Counter()

    async def call(provider: str) -> None:
        async with breakers.turn(provider, lambda: clock.time, clock.sleep):
            sent.append(clock.time)
            at_once[provider] += 1
            assert at_once["p"] <= 2
            await asyncio.sleep(0)
            at_once[provider] -= 1

    await asyncio.gather(*(call("p") for _ in range(7)), call("elsewhere"))
    assert len(sent) == 8
    sent.clear()
    for _ in range(30):
        await call("q")
    assert max(sum(at <= one < at + 60 for one in sent) for at in sent) == 8


def test_rates_are_read() -> None:
    read = rates_in("p=2, q = 120/min,r=9 60/min,")
    assert read == {"p": (2, None), "q": (None, 120), "r": (9, 60)}


@pytest.mark.parametrize("text", ["p", "p=", "p=0", "p=1/s", "p=2, 5/min"])
def test_rates_that_cannot_be_read_are_refused(text: str) -> None:
    with pytest.raises(NotRunnable, match="`LOOPKIT_CALLS` has"):
        rates_in(text)
