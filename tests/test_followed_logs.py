"""`loopkit runs logs --follow`: every event in order, as they come, and an end."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path
from types import FrameType
from typing import Any, TextIO

import pytest

from loopkit import start
from loopkit.cli import invoke
from loopkit.drive.stored_runs import StoredRuns
from loopkit.engine.changes import apply
from loopkit.engine.events import Started
from tests.machines import loop
from tests.support import CommandLine
from tests.warm import Process

STEPS = loop(
    "[short]",
    {"valid": "done"},
    "{revise: write, max: 5}",
    "{target: failed}",
    top="""
name: steps
agents:
  writer: {command: [sh, -c, "cat; until test -e go; do sleep 0.01; done"], on_in_doubt: retry}
validators: {short: [{max_chars: 1}]}
""",
    draft='write: {agent: writer, prompt: "Write.", output: note}',
    result="note",
)
"""Works until the file `go` is there, and is never accepted."""


@pytest.fixture(autouse=True)
def _steps(own_folder: Path) -> None:
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
    opened: list[TextIO], cli: CommandLine
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
    assert events(iter(cli(0, "runs", "logs", "--jsonl", run).out.splitlines())) == seen
    Path("go").touch()
    assert invoke(["resume", run, "--output", "quiet"]) == 1
    follow = ("runs", "logs", "--jsonl", "--follow", "--after", str(len(seen)), run)
    rest = events(iter(cli(0, *follow).out.splitlines()))
    assert [event["seq"] for event in rest] == list(range(len(seen) + 1, len(seen) + len(rest) + 1))
    assert rest[-1]["type"] == "finished"


async def test_who_follows_a_run_takes_each_of_its_events_once() -> None:
    taken, attempts, looks = 0, 0, threading.Semaphore(0)
    run: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def count(frame: FrameType, event: str, _: object) -> None:
        nonlocal taken
        if event == "call" and frame.f_code is apply.__code__:
            taken += 1
        if event == "call" and frame.f_code is StoredRuns.events.__code__:
            looks.release()

    def follow(run: str) -> None:
        sys.setprofile(count)
        invoke(["runs", "logs", "--jsonl", "-f", run])

    async def write(prompt: str, messages: object) -> str:
        nonlocal attempts, follower
        attempts += 1
        if attempts == 1:
            follower = threading.Thread(target=follow, args=(await run,))
            follower.start()
        if attempts in (1, 3):
            # It looks while nothing has happened since it last did, and when something has.
            await asyncio.to_thread(looks.acquire)
            await asyncio.to_thread(looks.acquire)
        return "Too long."

    follower = threading.Thread()
    async with aclosing(start("steps.yaml", agents={"writer": write})) as driven:
        first = await anext(driven)
        assert isinstance(first, Started)
        run.set_result(first.run)
        events = [first, *[event async for event in driven]]
    await asyncio.to_thread(follower.join)
    # Who drives a run is not told of the claim on it.
    assert taken == len(events) + 1
