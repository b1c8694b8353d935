"""Limits of the whole: what several processes on one journal in PostgreSQL keep together."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import psycopg
import pytest

from loopkit.agents.port import Crashed
from loopkit.app import App, Script
from loopkit.drive.breakers import SharedBreakers, rates_in
from loopkit.engine.events import Held, InDoubt, Replied
from loopkit.engine.state import RunState
from loopkit.journal.errors import JournalError
from loopkit.journal.journal import Journal, open_journal
from loopkit.journal.port import SharedLimits
from loopkit.language.load import Loaded, load
from loopkit.scenario.cases import load_scenario
from tests.support import scenario
from tests.support_postgres import server, url_of
from tests.warm import ran_loopkit

BATCH = "spend-0123abcd"
MACHINE = """
loopkit: 1
agents: {writer: {model: some/model, retry: {attempts: 2, backoff: 10ms, max_backoff: 5s}}}
states:
  draft: {agent: writer, prompt: Write., output: text, on_error: {content: failed}, next: done}
  done: {final: success, result: text}
  failed: {final: failure}
"""
RESERVED = {"reserved": {"cost_usd": 0.9, "tokens": 9000}}
PRICED = {"reply": "A text.", "cost_usd": 0.31, "usage": {"total": 9}, "delay": "20ms", **RESERVED}
LINES = 10


@pytest.fixture
def url(tmp_path: Path) -> str:
    return url_of(tmp_path)


@pytest.fixture
async def journals(url: str) -> AsyncIterator[list[Journal]]:
    """Two, as two processes have them."""
    opened = [open_journal(url), open_journal(url)]
    yield opened
    for journal in opened:
        await journal.close()


def limits_of(journal: Journal) -> SharedLimits:
    assert journal.limits is not None
    return journal.limits


def files(folder: Path, *calls: object) -> tuple[Loaded, Script]:
    (folder / "machine.yaml").write_text(MACHINE, encoding="utf-8")
    said = scenario(agents={"writer": [[*calls]]})
    (folder / "script.yaml").write_text(said, encoding="utf-8")
    return load(folder / "machine.yaml"), Script(*load_scenario(folder / "script.yaml"))


async def spend(url: str, folder: Path, name: str) -> None:
    """Run some lines of the batch, as a process of several does."""
    loaded, script = load(folder / "machine.yaml"), Script(*load_scenario(folder / "script.yaml"))

    async def line(app: App, number: int) -> RunState:
        run = f"{BATCH}-{name}{number}"
        return await app.drive(await app.start(loaded, {}, script, run=run))

    async with App.open(url) as app:
        await asyncio.gather(*(line(app, number) for number in range(LINES)))


def row(url: str) -> tuple[float, float]:
    """What the account of the batch has spent and holds, as the database has it."""
    schema = url.partition("schema=")[2].partition("&")[0]
    with psycopg.connect(server()) as db:
        found = db.execute(f"SELECT spent::float8, held::float8 FROM {schema}.accounts")
        [(spent, held)] = found.fetchall()
    return spent, held


async def test_a_batch_that_is_submitted_has_one_limit_for_all_who_drive_it(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files(tmp_path, PRICED)
    (tmp_path / "lines.jsonl").write_text("{}\n{}\n")
    monkeypatch.setenv("LOOPKIT_JOURNAL", url)
    argv = ("machine.yaml", "--script", "script.yaml", "--batch", "lines.jsonl", "--max-cost", "1")
    done = await asyncio.to_thread(ran_loopkit, "submit", *argv, cwd=tmp_path)
    async with App.open(url) as app:
        ended = [await app.drive(await app.resume(run)) for run in done.stdout.split()]
    assert [one.suspended and one.suspended.reason for one in ended] == [None, "limit"]
    assert row(url) == (pytest.approx(0.31), 0.0)


async def test_a_batch_limit_of_10_usd_over_4_processes_is_kept_to_the_cent(
    url: str, tmp_path: Path, journals: list[Journal]
) -> None:
    files(tmp_path, PRICED)
    await limits_of(journals[0]).open_account(BATCH, 10.0, 0.0)
    argv = [sys.executable, "-m", "tests.test_shared_limits", url, str(tmp_path)]
    spenders = [await asyncio.create_subprocess_exec(*argv, name) for name in "abcd"]
    assert [await one.wait() for one in spenders] == [0] * 4
    app = App(journals[0], folder=tmp_path)
    events = [
        stored.event for one in await journals[0].runs() for stored in await app.events(one.run)
    ]
    paid = [event.usage.cost_usd for event in events if isinstance(event, Replied)]
    # One more would have fitted if it cost as little; but it might have cost 0.90.
    assert len(paid) == 30
    assert row(url) == (pytest.approx(9.3), 0.0)
    states = [await app.state_of(one.run) for one in await journals[0].runs()]
    limited = [one.suspended for one in states if one.suspended]
    assert len(limited) == 10
    assert {one.reason for one in limited} == {"limit"}
    assert "`cost_usd` of the batch leaves no room: $9.3000 of $10.0000 used" in limited[0].message


async def test_what_a_killed_process_held_is_settled_by_the_next_one(
    url: str, tmp_path: Path, journals: list[Journal]
) -> None:
    loaded, script = files(tmp_path, {"fault": "crash", **RESERVED}, PRICED)
    limits, run = limits_of(journals[0]), f"{BATCH}-1"
    await limits.open_account(BATCH, 10.0, 0.0)
    async with App.open(url) as app:
        with pytest.raises(Crashed):
            await app.drive(await app.start(loaded, {}, script, run=run))
    assert row(url) == (0.0, pytest.approx(0.9))
    assert await limits.hold(BATCH, run, "a call that was never recorded", 2.0)
    assert not await limits.hold(BATCH, "another", "too much", 7.11)
    # Nobody drives the run, so that nobody has to wait for what it will have cost.
    assert await limits_of(journals[1]).standing(BATCH) == (10.0, pytest.approx(2.9), 0.0)
    async with App.open(url) as app:
        state = await app.drive(await app.resume(run))
        events = [stored.event for stored in await app.events(run)]
    assert any(isinstance(event, InDoubt) for event in events)
    assert state.finished is not None
    # It may have been made, and is charged.
    assert row(url) == (pytest.approx(0.9 + 0.31), 0.0)
    await limits.hold(BATCH, run, "left", 1.0)
    await journals[0].remove(run)
    assert row(url)[1] == 0.0


async def test_a_provider_that_asks_one_process_to_wait_is_not_called_by_another(
    tmp_path: Path, journals: list[Journal]
) -> None:
    loaded, _ = files(tmp_path)
    first, second = (SharedBreakers(limits_of(one), {}) for one in journals)
    assert await second.seconds_to_wait("some", time.monotonic() - 60) == 0
    await first.record_failure("some", time.monotonic(), 20.0)
    assert 15 < await second.seconds_to_wait("some", time.monotonic()) <= 20
    app = App(journals[1], folder=tmp_path, functions={"writer": lambda *_: "A text."})
    state = await app.drive(await app.start(loaded, {}))
    assert state.suspended is not None
    assert "`some` failed 1 time in a row" in state.suspended.message
    await second.record_answer("some")
    assert await second.seconds_to_wait("some", time.monotonic()) == 0
    assert not [one for one in await app.events(state.run) if isinstance(one.event, Held)]


async def test_one_process_alone_tries_whether_a_provider_answers_again(
    journals: list[Journal],
) -> None:
    first, second = (limits_of(one) for one in journals)
    for _ in range(2):
        await first.record_failure("some", 0.0, 3, 30.0)
    assert (await second.circuits())["some"] == (2, 0.0)
    await first.record_failure("some", 0.0, 3, 30.0)
    assert (await second.circuits())["some"].closed_s > 25
    assert await first.probe("some")
    assert not await second.probe("some")
    await first.release_probe("some")
    assert await second.probe("some")


async def test_calls_at_once_and_a_minute_are_those_of_all_processes(
    journals: list[Journal],
) -> None:
    rates = rates_in("p=3, q=8/min")
    first, second = (SharedBreakers(limits_of(one), rates) for one in journals)

    held = {first: AsyncExitStack(), second: AsyncExitStack()}

    async def turns(breakers: SharedBreakers, provider: str, count: int) -> int:
        """How many of so many calls that are made at the same time need not wait."""
        entered = [0]

        async def call() -> None:
            with suppress(Late):
                turn = breakers.turn(provider, time.monotonic, no_pause)
                await held[breakers].enter_async_context(turn)
                entered[0] += 1

        await asyncio.gather(*(call() for _ in range(count)))
        return entered[0]

    assert (await turns(first, "q", 1), await turns(second, "q", 4)) == (1, 1)
    assert (await turns(first, "p", 2), await turns(second, "p", 3)) == (2, 1)
    await journals[1].close()
    await asyncio.sleep(0.2)
    assert await turns(first, "p", 5) == 1
    await held[first].aclose()
    await asyncio.sleep(0.2)
    assert await turns(first, "p", 5) == 3
    with suppress(JournalError):
        await held[second].aclose()


class Late(Exception):
    pass


async def no_pause(_: float) -> None:
    raise Late


if __name__ == "__main__":
    asyncio.run(spend(sys.argv[1], Path(sys.argv[2]), sys.argv[3]))
