"""`loopkit runs logs --follow`: every event in order, as they come, and an end."""

# ruff: noqa: ASYNC240 - nothing else runs in these tests' event loops

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Any, TextIO

import pytest

from loopkit import start
from loopkit.cli import invoke
from loopkit.engine.events import Event, Started
from tests.warm import Process

STEPS = """
loopkit: 1
name: steps
agents:
  writer: {command: [sh, -c, "cat; until test -e go; do sleep 0.01; done"], on_in_doubt: retry}
validators: {short: [{max_chars: 1}]}
states:
  write: {agent: writer, prompt: "Write.", output: note, next: judge}
  judge:
    validate: note
    by: [short]
    transitions: [{guard: valid, target: done}, {revise: write, max: 5}, {target: failed}]
  done: {final: success, result: note}
  failed: {final: failure}
"""
"""Works until the file `go` is there, and is never accepted."""


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("steps.yaml").write_text(STEPS, encoding="utf-8")


@pytest.fixture
def opened() -> Iterator[list[TextIO]]:
    streams: list[TextIO] = []
    yield streams
    for stream in streams:
        stream.close()


def begun(opened: list[TextIO], *argv: str) -> tuple[Process, TextIO]:
    """A command, and what it prints while it goes on; its standard error is in `told`."""
    reader, writer = os.pipe()
    opened.append(os.fdopen(reader))
    with Path(os.devnull).open("rb") as nothing, Path("told").open("wb") as told:
        streams = [nothing.fileno(), writer, told.fileno()]
        process = Process(["-m", "loopkit", *argv], streams)
    os.close(writer)
    return process, opened[-1]


def events(lines: Iterator[str] | TextIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in lines]


def test_who_follows_a_run_has_every_event_that_its_process_prints_in_order(
    opened: list[TextIO],
) -> None:
    process, printed = begun(opened, "run", "steps.yaml", "--output", "jsonl")
    first = json.loads(printed.readline())
    follower, followed = begun(opened, "runs", "logs", "--jsonl", "-f", first["run"])
    seen = [json.loads(followed.readline())]
    Path("go").touch()
    seen += events(followed)
    assert (process.wait(60), follower.wait(60)) == (1, 0)
    told = [first, *events(printed)]
    assert told[-1]["type"] == "result"
    # The claim is the journal's own record, and no event of the process.
    assert [event for event in seen if event["type"] != "claimed"] == told[:-1]
    assert [event["seq"] for event in seen] == list(range(1, len(seen) + 1))
    assert seen[-1]["type"] == "finished"
    assert Path("told").read_text() == ""


def test_the_wait_ends_when_the_process_that_drove_the_run_was_killed(
    opened: list[TextIO], capsys: pytest.CaptureFixture[str]
) -> None:
    process, printed = begun(opened, "run", "steps.yaml", "--output", "jsonl")
    run = json.loads(printed.readline())["run"]
    follower, followed = begun(opened, "runs", "logs", "--jsonl", "-f", run)
    seen = [json.loads(followed.readline())]
    process.send_signal(signal.SIGKILL)
    process.wait(60)
    seen += events(followed)
    assert follower.wait(60) == 0
    assert Path("told").read_text() == (
        f"the process that drove {run} is gone; resume with: loopkit resume {run}\n"
    )
    assert invoke(["runs", "logs", "--jsonl", run]) == 0
    assert events(iter(capsys.readouterr().out.splitlines())) == seen
    Path("go").touch()
    assert invoke(["resume", run, "--output", "quiet"]) == 1
    capsys.readouterr()
    assert invoke(["runs", "logs", "--jsonl", "--follow", "--after", str(len(seen)), run]) == 0
    rest = events(iter(capsys.readouterr().out.splitlines()))
    assert [event["seq"] for event in rest] == list(range(len(seen) + 1, len(seen) + len(rest) + 1))
    assert rest[-1]["type"] == "finished"


async def test_waiting_for_a_long_run_costs_as_little_as_for_a_short_one(
    opened: list[TextIO],
) -> None:
    Path("long.yaml").write_text(STEPS.replace("max: 5", "max: 500"), encoding="utf-8")
    is_long, calls = asyncio.Event(), 0

    async def write(prompt: str, messages: object) -> str:
        nonlocal calls
        calls += 1
        if calls == 500:
            is_long.set()
            await asyncio.Event().wait()
        return "Too long."

    async with aclosing(start("long.yaml", agents={"writer": write})) as driven:
        first = await anext(driven)
        assert isinstance(first, Started)
        driving = asyncio.create_task(_drain(driven))
        await is_long.wait()
        follower, followed = begun(opened, "runs", "logs", "--jsonl", "-f", first.run)
        try:
            seen = (json.loads(line) for line in followed)
            assert any(event["type"] == "intended" and event["visit"] == 500 for event in seen)
            # The wait, not the reading before it, is measured.
            await asyncio.sleep(1)
            before = cpu_s(follower)
            await asyncio.sleep(3)
            assert cpu_s(follower) - before < 0.12
        finally:
            follower.send_signal(signal.SIGKILL)
            follower.wait(60)
            driving.cancel()
            with suppress(asyncio.CancelledError):
                await driving


async def _drain(events: AsyncIterator[Event]) -> None:
    async for _ in events:
        pass


def cpu_s(process: Process) -> float:
    """The CPU time that a process has used."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
