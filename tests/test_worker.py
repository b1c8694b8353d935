"""Workers: submitted runs go on in any of them, whatever happens to the others."""

# ruff: noqa: ASYNC110, ASYNC240 - what is waited for happens in other processes
from __future__ import annotations

import asyncio
import json
import signal
import socket
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import httpx
import psycopg
import pytest

from loopkit.agents.port import NotRunnable
from loopkit.app import App
from loopkit.engine.events import InDoubt, Replied
from loopkit.engine.payloads import HumanAnswer
from loopkit.journal.journal import open_journal
from loopkit.serving.host import A_WORKER, Host, Worker
from tests.support import CommandLine
from tests.support_postgres import Proxy, server, url_of
from tests.waiting import LONG_S, is_alive, until
from tests.warm import Process, ran_loopkit

TTL = 6.0
SLOW = """
loopkit: 1
name: slow
agents:
  writer:
    command: [sh, -c, "cat; echo $$ >> begun; until test -e go; do sleep 0.05; done"]
    on_in_doubt: retry
    retry: {attempts: 5}
states:
  write: {agent: writer, prompt: "Write.", output: note, next: done, on_error: {content: failed}}
  done: {final: success, result: note}
  failed: {final: failure}
"""
"""Works until the file `go` is there."""
QUICK = """
loopkit: 1
name: quick
agents:
  writer: {command: [sh, -c, "sleep 0.3; echo x >> steps; cat steps"]}
states:
  write: {agent: writer, prompt: "Write.", output: note, next: judge, on_error: {content: failed}}
  judge:
    validate: note
    by: [long]
    transitions:
      - {guard: incomplete, target: failed}
      - {guard: valid, target: done}
      - {revise: write, max: 20}
      - {target: failed}
  done: {final: success, result: note}
  failed: {final: failure}
validators:
  long: {matches: '(x\\s*){12}'}
"""
"""Takes a dozen short steps."""
ASKING = """
loopkit: 1
name: asking
states:
  ask: {human: "Go on?", choices: [yes], next: done}
  done: {final: success}
"""
KEYED = """
loopkit: 1
name: keyed
agents:
  writer: {model: openai/gpt-5-mini, api_key_env: KEY_OF_OTHERS, params: {max_tokens: 9}}
states:
  write: {agent: writer, prompt: "Write.", output: note, next: done, on_error: {content: failed}}
  done: {final: success, result: note}
  failed: {final: failure}
"""


@pytest.fixture
def url(own_folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of a journal of whose owners nobody is protected by a young server."""
    url = url_of(own_folder, ttl=TTL)
    with psycopg.connect(server()) as db:
        [age] = db.execute(
            "SELECT extract(epoch FROM now() - pg_postmaster_start_time())::float8"
        ).fetchone() or (0.0,)
    time.sleep(max(0.0, TTL + 0.1 - age))
    monkeypatch.setenv("LOOPKIT_JOURNAL", url)
    return url


def submitted(text: str, *options: str) -> str:
    Path("machine.yaml").write_text(text, encoding="utf-8")
    done = ran_loopkit("submit", "machine.yaml", *options)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@contextmanager
def worker(*options: str) -> Iterator[Process]:
    """A worker in a process of its own, which has to end well unless it was killed."""
    process = Process(["-m", "loopkit", "worker", *options])
    try:
        yield process
        process.send_signal(signal.SIGTERM)
        assert process.wait(LONG_S) in (0, -signal.SIGKILL)
    finally:
        process.send_signal(signal.SIGKILL)


@asynccontextmanager
async def working(place: str | Path, *labels: str, parallel: int = 4) -> AsyncIterator[Worker]:
    """A worker in this process."""
    one = Worker(App.open(place), parallel=parallel, labels=labels, slice_s=600.0, drain_s=60.0)
    task = asyncio.create_task(one.work())
    try:
        yield one
    finally:
        one.stop()
        await task


async def until_ended(url: str | Path, *runs: str) -> None:
    async with App.open(url, open_journal(url, readonly=True)) as app, asyncio.timeout(LONG_S):
        for run in runs:
            while not (await app.state_of(run)).is_over:
                await asyncio.sleep(0.05)


def begun() -> list[str]:
    """The programs that have begun, by their numbers."""
    return Path("begun").read_text().split() if Path("begun").exists() else []


async def due(url: str) -> list[str]:
    journal = open_journal(url, readonly=True)
    found = await journal.due()
    await journal.close()
    return [one.run for one in found]


async def replies_and_doubts(url: str, run: str) -> tuple[int, int]:
    async with App.open(url, open_journal(url, readonly=True)) as app:
        events = [stored.event for stored in await app.events(run)]
    return tuple(sum(isinstance(e, kind) for e in events) for kind in (Replied, InDoubt))


def test_a_run_goes_on_in_another_worker_when_its_own_is_killed_or_stands_still(url: str) -> None:
    run = submitted(SLOW)
    with worker() as first:
        until(lambda: len(begun()) == 1, "the work")
        with worker() as second:
            first.send_signal(signal.SIGKILL)
            until(lambda: len(begun()) == 2, "the takeover")
            assert not is_alive(begun()[0])
            with worker() as third:
                second.send_signal(signal.SIGSTOP)
                # Nobody but its watcher can end what it has begun.
                until(lambda: not is_alive(begun()[1]), "the end of what nobody waits for")
                assert len(begun()) == 2
                until(lambda: len(begun()) == 3, "the second takeover")
                second.send_signal(signal.SIGCONT)
                Path("go").touch()
                asyncio.run(until_ended(url, run))
                assert asyncio.run(replies_and_doubts(url, run)) == (1, 2)
                third.send_signal(signal.SIGTERM)
                logged = third.communicate()[1].splitlines()
    lines = [json.loads(line) for line in logged]
    assert all(line.keys() >= {"time", "level", "event"} for line in lines)
    assert ("taken", run) in [(line["event"], line.get("run")) for line in lines]


def test_a_worker_that_is_told_to_end_finishes_steps_and_leaves_runs_due(url: str) -> None:
    runs = [submitted(SLOW), submitted(QUICK)]
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with worker("--drain", "2s", "--listen", f"127.0.0.1:{port}"):
        until(lambda: begun() and Path("steps").exists(), "the work of both")
        figures = httpx.get(f"http://127.0.0.1:{port}/metrics", trust_env=False).text
        assert 'loopkit_runs{state="running"} 2' in figures
        assert httpx.get(f"http://127.0.0.1:{port}/healthz", trust_env=False).text == "ok"
    assert not is_alive(begun()[0])
    assert sorted(asyncio.run(due(url))) == sorted(runs)
    steps = Path("steps").read_text().count("x")
    assert asyncio.run(replies_and_doubts(url, runs[1])) == (steps, 0)
    Path("go").touch()
    with worker():
        asyncio.run(until_ended(url, *runs))


def test_a_worker_ends_in_time_although_its_database_is_away(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy, run = Proxy(), submitted(SLOW)
    monkeypatch.setenv("LOOPKIT_JOURNAL", proxy.url(url))
    process = Process(["-m", "loopkit", "worker", "--drain", "1s"])
    until(begun, "the work")
    proxy.is_away = True
    proxy.cut()
    # By then it waits for an answer about what is due.
    time.sleep(3)
    process.send_signal(signal.SIGTERM)
    assert process.wait(LONG_S) == 1
    assert not is_alive(begun()[0])
    proxy.close()
    assert asyncio.run(due(url)) == [run]


async def test_an_answer_to_a_submitted_run_wakes_a_worker(url: str) -> None:
    run = submitted(ASKING)
    async with working(url) as asks:
        async with asyncio.timeout(LONG_S):
            while not await asks.app.questions(run):
                await asyncio.sleep(0.05)
    # Whoever answers need not be able to drive it, and neither does a server take it away.
    answered = await asyncio.to_thread(ran_loopkit, "answer", run, "yes")
    assert (answered.returncode, f"a worker goes on with {run}" in answered.stderr) == (0, True)
    other = submitted(ASKING)
    async with Host(url, []) as host:
        await host.continue_due()
        async with working(url):
            await until_ended(url, run)
            async with asyncio.timeout(LONG_S):
                while not await host.app.questions(other):
                    await asyncio.sleep(0.05)
            assert (await host.post(other, HumanAnswer(choice="yes", by="ann"))).driver == A_WORKER
            await until_ended(url, other)


async def test_a_hint_that_is_lost_made_twice_or_kept_keeps_no_run_waiting(url: str) -> None:
    table = "public.procrastinate_jobs"
    jobs = f"{table} WHERE queueing_lock LIKE %s"
    schema = url.partition("schema=")[2].partition("&")[0]
    changes = (
        f"DELETE FROM {jobs}",
        f"INSERT INTO {table} (queue_name, task_name, args) "
        f"SELECT queue_name, task_name, args FROM {jobs}",
        f"UPDATE {table} SET status = 'doing' WHERE id IN (SELECT id FROM {jobs})",
    )
    runs = []
    for change in changes:
        runs.append(submitted(ASKING))
        async with App.open(url) as app:
            await app.journal.submit(runs[-1])
        with psycopg.connect(server(), autocommit=True) as db:
            assert db.execute(change, (f"{schema}/%",)).rowcount
    async with working(url) as one, asyncio.timeout(LONG_S):
        for run in runs:
            while not await one.app.questions(run):
                await asyncio.sleep(0.05)
        # It is heeded at once by a worker that would look for runs again in a second.
        await asyncio.sleep(0.1)
        one._woken.clear()
        heeded = asyncio.create_task(one._woken.wait())
        async with App.open(url) as app:
            await app.post(runs[0], HumanAnswer(choice="yes", by="ann"))
        await heeded
        await until_ended(url, runs[0])


async def test_a_run_goes_on_only_where_there_is_what_it_needs(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    labelled, keyed = submitted(ASKING, "--needs", "gpu,eu"), submitted(KEYED)
    said = ran_loopkit("worker", "--check")
    assert said.returncode == 1
    assert f"{keyed}: " in said.stdout
    assert "KEY_OF_OTHERS" in said.stdout
    async with working(url, "gpu") as one:
        await asyncio.sleep(2.5)
        named = [one for one in caplog.records if getattr(one, "event", "") == "fault"]
        assert [one.run for one in named] == [keyed]
        assert await one.app.questions(labelled) == []
    # One that has found out too late leaves the run of a killed process due as well.
    killed = App.open(url)
    await (await killed.journal.claim(keyed)).release()
    await killed.journal.claim(keyed)
    await killed.close()
    async with App.open(url) as app:
        with pytest.raises(NotRunnable):
            await app.resume(keyed)
    assert keyed in await due(url)
    async with working(url, "gpu", "eu", "more") as one, asyncio.timeout(LONG_S):
        while not await one.app.questions(labelled):
            await asyncio.sleep(0.05)


def test_an_engine_advances_a_run_slice_by_slice(own_folder: Path, cli: CommandLine) -> None:
    run = submitted(QUICK)
    codes = [cli.ends("advance", run, "--slice", "700ms")[0] for _ in range(2)]
    assert codes == [75, 75]
    assert asyncio.run(due(own_folder / ".loopkit")) == [run]

    async def advance_another() -> None:
        async with App.open(own_folder / ".loopkit") as app:
            await app.journal.claim(run)
            busy = await asyncio.to_thread(ran_loopkit, "advance", run)
            assert (busy.returncode, "is being driven" in busy.stderr) == (75, True)

    asyncio.run(advance_another())
    cli(0, "advance", run)
    assert "interrupted" in cli(0, "runs", "logs", run).out


async def test_lines_that_are_submitted_are_those_of_the_same_batch(
    own_folder: Path, cli: CommandLine
) -> None:
    state = own_folder / ".loopkit"
    machine = ASKING.replace("states:", "input: {topic: str}\nstates:").replace(
        'ask: {human: "Go on?", choices: [yes], next: done}',
        'ask: {render: "{{ input.topic }}", output: note, next: done}',
    )
    Path("batch.jsonl").write_text('{"topic": "tea"}\n{"topic": 1}\n{"topic": "milk"}\n')
    Path("machine.yaml").write_text(machine)
    argv = ("machine.yaml", "--batch", "batch.jsonl")
    first = await asyncio.to_thread(ran_loopkit, "submit", *argv)
    assert (first.returncode, first.stderr.count("line 2")) == (1, 1)
    async with working(state):
        await until_ended(state, *first.stdout.split())
    again = await asyncio.to_thread(ran_loopkit, "submit", *argv)
    assert again.stdout == first.stdout
    assert await due(state) == []
    results = await asyncio.to_thread(ran_loopkit, "run", *argv)
    assert [json.loads(line)["run"] for line in results.stdout.splitlines()] == first.stdout.split()
    for wrong in (("--key", "topic"), ("--max-cost", "1", "--batch", "batch.jsonl")):
        done = await asyncio.to_thread(ran_loopkit, "submit", "machine.yaml", *wrong)
        assert done.returncode == 2
