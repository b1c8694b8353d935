"""Kills a run at every point where it can be killed, resumes it, and says how it ended.

`python -m tests.crash.host MACHINE SCENARIO FOLDER` prints one line of JSON for
the unharmed run and one for each point: before and after every append, and
inside every window between an intent and its reply. The killed process is a fork
of this one, so that a point costs milliseconds.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

from loopkit.app import App, Script
from loopkit.events import InDoubt, Replied, Suspended
from loopkit.journal import NewRecord
from loopkit.journal.sqlite import SqliteJournal
from loopkit.load import load
from loopkit.runstate import RunState
from loopkit.scenario import load_scenario

Moment = Literal["before", "after"]
MAX_RESUMES = 5


class Killer:
    """Counts appends, and ends the process at one of them."""

    def __init__(self, moment: Moment | None = None, number: int = 0) -> None:
        self.appends = 0
        self._moment, self._number = moment, number

    def __call__(self, moment: Moment, run: str, records: Sequence[NewRecord]) -> None:
        if moment == "before":
            self.appends += 1
        if moment == self._moment and self.appends == self._number:
            os.kill(os.getpid(), signal.SIGKILL)


async def _started(machine: Path, scenario: Path, folder: Path, killer: Killer) -> None:
    app = App(SqliteJournal.open(folder / ".loopkit", observer=killer), folder=folder)
    active = await app.start(load(machine), {"n": 2}, Script(*load_scenario(scenario)))
    await app.drive(active)
    await app.close()


async def _resumed(folder: Path) -> tuple[RunState | None, list[Any]]:
    """Go on until the run is over, as a person would who calls `resume` again and again."""
    app = App(SqliteJournal.open(folder / ".loopkit"), folder=folder)
    try:
        runs = await app.journal.runs(["started"])
        if not runs:
            return None, []
        state = await app.state_of(runs[0].run)
        for _ in range(MAX_RESUMES):
            if state.finished is not None:
                break
            state = await app.drive(await app.resume(state.run))
        return state, [stored.event for stored in await app.events(state.run)]
    finally:
        await app.close()


def _forked(machine: Path, scenario: Path, folder: Path, killer: Killer) -> int:
    """Run in a child process; the signal that ended it, or 0."""
    child = os.fork()
    if child == 0:
        asyncio.run(_started(machine, scenario, folder, killer))
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _told(name: str, ended: int, folder: Path) -> dict[str, Any]:
    state, events = asyncio.run(_resumed(folder))
    log = folder / "calls.log"
    calls = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
    told: dict[str, Any] = {"point": name, "ended": ended, "calls": len(calls)}
    if state is None:
        return {**told, "outcome": None}
    return {
        **told,
        "outcome": state.finished.outcome if state.finished else state.status,
        "result": state.finished.result if state.finished else {},
        "artifacts": {n: [a.text, a.attempt] for n, a in state.artifacts.items()},
        "counters": dict(state.counters),
        "attempts": dict(state.attempts),
        "route": state.route,
        "prompts": {s: [e.prompt for e in told] for s, told in state.conversations.items()},
        "replies": sum(isinstance(event, Replied) for event in events),
        "suspensions": sum(isinstance(event, Suspended) for event in events),
        "in_doubt": sum(isinstance(event, InDoubt) for event in events),
    }


def points(machine: Path, scenario: Path, work: Path) -> Iterator[dict[str, Any]]:
    """The unharmed run, then every point."""
    folder = _fresh(work, "unharmed")
    killer = Killer()
    asyncio.run(_started(machine, scenario, folder, killer))
    unharmed = _told("unharmed", 0, folder)
    yield {**unharmed, "appends": killer.appends}
    for number in range(1, killer.appends + 1):
        for moment in ("before", "after"):
            name = f"{moment}_{number}"
            folder = _fresh(work, name)
            yield _told(name, _forked(machine, scenario, folder, Killer(moment, number)), folder)
    for call in range(1, unharmed["calls"] + 1):
        folder = _fresh(work, f"inside_call_{call}")
        (folder / "kill_at").write_text(str(call), encoding="utf-8")
        yield _told(folder.name, _forked(machine, scenario, folder, Killer()), folder)


def _fresh(work: Path, name: str) -> Path:
    folder = work / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


if __name__ == "__main__":
    for told in points(*map(Path, sys.argv[1:4])):
        print(json.dumps(told), flush=True)
