"""What a server does by itself: questions whose time runs out, and runs that were to be resumed."""

# ruff: noqa: ASYNC110, ASYNC221, ASYNC240 - nothing else runs in these tests' event loops

from __future__ import annotations

import asyncio
import json
import sqlite3
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest

from loopkit.drive.active import RealClock
from loopkit.journal.journal import open_journal
from loopkit.journal.records import NewRecord
from loopkit.serving.host import Host
from tests.http_site import ASKING, LETTERS, served
from tests.warm import ran_loopkit

pytestmark = pytest.mark.usefixtures("own_folder")
STATE = Path(".loopkit")
HURRIED = ASKING.replace("show: [letter]", "show: [letter]\n    timeout: 1s\n    otherwise: drop")
PATIENT = HURRIED.replace("1s", "100h")
BLOCKED = (
    HURRIED.replace("otherwise: drop", "otherwise: send")
    .replace("target: sent}", "target: sure}")
    .replace("default: tea}", "default: tea}, zero: {type: int, default: 0}")
    .replace(
        "  sent:", '  sure: {human: "{{ 1 // input.zero }}?", choices: [yes], next: sent}\n  sent:'
    )
)
"""What counts when the time is over leads to a question that cannot be put."""
QUOTA = """
loopkit: 1
name: quota
agents:
  writer:
    command: [sh, -c, "echo >> tries; test -e quota && { echo 'again in WAITS'; exit 9; }; cat"]
    retry: {attempts: 2, backoff: 0s, max_backoff: 0s}
    errors:
      - {exit: 9, class: transient, stdout: 'again in (?P<retry_after>\\S+)'}
states:
  write: {agent: writer, prompt: "Write.", output: note, next: done, on_error: {content: failed}}
  done: {final: success, result: note}
  failed: {final: failure}
"""
"""Has no quota while the file is there, and says when it is worth asking again."""


def written(name: str, text: str) -> Path:
    path = Path(f"{name}.yaml")
    path.write_text(text, encoding="utf-8")
    return path


def waiting_run(path: Path, code: int = 5) -> str:
    """A run that another process has begun and left."""
    done = ran_loopkit("run", str(path), "--output", "jsonl")
    assert done.returncode == code, done.stderr
    return str(json.loads(done.stdout.splitlines()[-1])["run"])


def is_over(run: dict[str, Any]) -> bool:
    return run["summary"]["outcome"] is not None and not run["summary"]["is_driven"]


async def test_a_question_of_a_run_that_the_server_started_ends_with_its_time() -> None:
    async with served(STATE, written("letter", HURRIED), may_answer=True) as site:
        run = (await site.post("/api/runs", machine="letter")).json()["run"]
        told = await site.until(run, is_over)
        assert told["summary"]["outcome"] == "dropped"
        assert told["answers"]["ask"]["by"] == "timeout"
        assert site.said == []


async def test_a_question_that_was_open_before_the_server_began_ends_with_its_time() -> None:
    runs = ["killed", *(waiting_run(written("letter", HURRIED)) for _ in range(2))]
    # One process was killed as it asked.
    code = """if True:
        import asyncio, os, pathlib, types, loopkit, loopkit.app
        async def main():
            person = types.SimpleNamespace(answer=lambda *_: os.kill(os.getpid(), 9))
            app = loopkit.app.App.open(pathlib.Path(".loopkit"), person=person)
            await app.drive(await app.start(loopkit.load("letter.yaml"), {}, run="killed"))
        asyncio.run(main())"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -9
    async with served(STATE, may_answer=True) as site:
        for run in runs:
            assert (await site.until(run, is_over))["summary"]["outcome"] == "dropped"


async def test_a_question_that_another_process_asks_meanwhile_ends_with_its_time() -> None:
    path = written("letter", HURRIED)
    async with served(STATE, may_answer=True) as site:
        run = await asyncio.to_thread(waiting_run, path)
        assert (await site.until(run, is_over))["summary"]["outcome"] == "dropped"


async def test_a_question_of_a_child_ends_with_its_time_and_its_family_goes_on() -> None:
    written("letter", HURRIED)
    root = waiting_run(written("letters", LETTERS))
    async with served(STATE, may_answer=True) as site:
        told = await site.until(root, is_over)
        assert [child["summary"]["outcome"] for child in told["children"]] == ["dropped"] * 2


async def test_a_server_that_only_shows_leaves_a_question_open() -> None:
    run = waiting_run(written("letter", HURRIED))
    async with served(STATE) as site:
        assert site.site.host is None
        told = await site.get(f"/api/runs/{run}")
        assert told["summary"]["status"] == "waiting"


async def test_where_otherwise_cannot_be_taken_the_question_stays_open_and_is_asked_once() -> None:
    run = waiting_run(written("letter", BLOCKED))
    async with served(STATE, may_answer=True) as site:
        await site.until(
            run, lambda told: told["summary"]["seq"] > 8 and not told["summary"]["is_driven"]
        )
        events = (await site.get(f"/api/runs/{run}/events"))["events"]
        refused = [event for event in events if event["type"] == "refused"]
        assert ["`otherwise` can't be taken" in one["reason"] for one in refused] == [True]
        assert await site.site.stored.journal.due(every=True) == []
        answer = await site.post(f"/api/runs/{run}/answer", choice="drop")
        assert answer.status_code == 200
        assert (await site.until(run, is_over))["summary"]["outcome"] == "dropped"


async def test_a_run_is_resumed_when_its_provider_has_said() -> None:
    Path("quota").touch()
    run = waiting_run(written("quota", QUOTA.replace("WAITS", "2s")), 4)
    Path("quota").unlink()
    async with served(STATE, may_answer=True) as site:
        assert (await site.until(run, is_over))["summary"]["outcome"] == "done"
        events = (await site.get(f"/api/runs/{run}/events"))["events"]
        suspended = next(event for event in events if event["type"] == "suspended")
        resumed = next(event for event in events if event["type"] == "resumed")
        assert resumed["time"] >= suspended["resume_at"]


async def test_a_run_is_not_resumed_in_vain_for_ever() -> None:
    Path("quota").touch()
    run = waiting_run(written("quota", QUOTA.replace("WAITS", "1s")), 4)
    async with served(STATE, may_answer=True) as site:
        async with asyncio.timeout(60):
            while not site.said:
                await asyncio.sleep(0.02)
        [said] = site.said
        assert "suspended 3 times in a row" in said
        assert f"`loopkit resume {run}`" in said
        # The first try of the command line, and as many resumes as a call may be tried.
        assert Path("tries").read_text().count("\n") == 3
        Path("quota").unlink()
        assert (await site.post(f"/api/runs/{run}/resume")).status_code == 200
        assert (await site.until(run, is_over))["summary"]["outcome"] == "done"


# -- what is due, without waiting --------------------------------------------------------------


class Desk(RealClock):
    """Appointments of a host, with a clock that is set by hand."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.ahead = 0.0
        self.host = Host(STATE, [], self.said.append, clock=self)

    def now(self) -> float:
        return time.time() + self.ahead

    async def goes_on_with(self) -> list[str]:
        """The runs that are taken up now, in this order."""
        order = self.host.app.journal
        before = await order.newest()
        await self.host.continue_due()
        claims = [one for one in await order.records_after(before) if one.record.type == "claimed"]
        for one in claims:
            await self.host.wait_until_released(one.run)
        return [one.run for one in claims]


@asynccontextmanager
async def desk() -> AsyncIterator[Desk]:
    at = Desk()
    async with at.host:
        yield at


def hours(count: int) -> float:
    return count * 3600.0


async def test_moments_are_kept_in_their_order_whatever_order_they_were_told_in() -> None:
    runs = {
        count: waiting_run(written(f"letter{count}", PATIENT.replace("100h", f"{count}h")))
        for count in (30, 10, 20)
    }
    async with desk() as at:
        assert await at.goes_on_with() == []
        at.ahead += hours(11)
        assert await at.goes_on_with() == [runs[10]]
        at.ahead += hours(100)
        assert await at.goes_on_with() == [runs[20], runs[30]]
        assert await at.goes_on_with() == []


async def test_a_journal_that_cannot_be_read_is_asked_again() -> None:
    run = waiting_run(written("letter", HURRIED))
    async with served(STATE, may_answer=True) as site:
        with closing(sqlite3.connect(STATE / "journal.db", isolation_level=None)) as other:
            other.execute("BEGIN EXCLUSIVE")
            await asyncio.sleep(1.5)
            other.execute("ROLLBACK")
        assert (await site.until(run, is_over))["summary"]["outcome"] == "dropped"
        assert site.said == []


async def test_a_run_that_was_removed_or_is_over_is_left_alone() -> None:
    path = written("letter", PATIENT)
    runs = [waiting_run(path) for _ in range(3)]
    async with desk() as at:
        await asyncio.to_thread(ran_loopkit, "runs", "rm", runs[0])
        await asyncio.to_thread(ran_loopkit, "answer", runs[1], "drop")
        at.ahead += hours(101)
        assert await at.goes_on_with() == [runs[2]]
        assert at.said == []


async def test_an_older_question_of_a_run_is_nothing_to_wait_for() -> None:
    run = waiting_run(written("letter", PATIENT))
    async with desk() as at:
        first = (await at.host.app.state_of(run)).question
        assert first.expires_at is not None
        again = ["answer", run, "again", "--comment", "Shorter."]
        assert (await asyncio.to_thread(ran_loopkit, *again)).returncode == 5
        at.ahead = first.expires_at - time.time()
        assert await at.goes_on_with() == []
        # The one that is open now has a time of its own.
        at.ahead += hours(1)
        assert await at.goes_on_with() == [run]


async def test_a_run_that_another_process_has_in_hand_is_looked_at_again() -> None:
    run = waiting_run(written("letter", PATIENT))
    other = open_journal(STATE)
    claim = await other.claim(run)
    async with desk() as at:
        at.ahead += hours(101)
        assert await at.goes_on_with() == []
        await claim.release(due=claim.due)
        await other.close()
        assert await at.goes_on_with() == [run]


async def test_a_run_that_cannot_be_read_keeps_nobody_else_waiting() -> None:
    path = written("letter", PATIENT)
    runs = [waiting_run(path) for _ in range(2)]
    async with desk() as at:
        journal = at.host.app.journal
        claim = await journal.claim(runs[0])
        await claim.append([NewRecord("of_the_future", 1.0, "{}")], releases=True, due=claim.due)
        at.ahead += hours(101)
        assert await at.goes_on_with() == [runs[1]]
        assert [one.run for one in await journal.due(every=True)] == [runs[0]]
        assert await at.goes_on_with() == []
