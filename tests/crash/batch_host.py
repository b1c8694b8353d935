"""Kills a batch before and after every append, runs it again, and says what became of it.

`python -m tests.crash.batch_host MACHINE LINES FOLDER` prints one line of JSON for the unharmed
batch and one for each point. The killed process is a fork of this one.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from loopkit.app import App
from loopkit.cli.batch import Batch, BatchDriver, open_results
from loopkit.drive.limits import Budget
from loopkit.engine.events import InDoubt, Replied
from loopkit.journal.journal import open_journal
from loopkit.language.load import Loaded, load
from tests.commits import watched
from tests.crash.host import Killer

PARALLEL = 2


async def _run(loaded: Loaded, lines: Path, folder: Path, killer: Killer) -> None:
    batch = Batch(loaded.machine, lines, folder / "out.jsonl", {})
    with watched(killer):
        app = App(open_journal(folder / ".loopkit"), folder=folder)
    async with app:
        with open_results(batch.results, batch.name) as results:
            driver = BatchDriver(app, loaded, batch, results, Budget("the batch"))
            await driver.survey()
            await driver.drive(PARALLEL)


async def _told(folder: Path) -> dict[str, Any]:
    """What the journal and the results file hold in the end."""
    async with App(open_journal(folder / ".loopkit"), folder=folder) as app:
        runs = [row.run for row in await app.journal.runs()]
        events = [stored.event for run in runs for stored in await app.events(run)]
    out = (folder / "out.jsonl").read_text(encoding="utf-8").splitlines()
    results = [json.loads(line) for line in out]
    return {
        "point": folder.name,
        "results": sorted([one["line"], one["outcome"], one["result"]] for one in results),
        "runs": len(runs),
        "replies": sum(isinstance(event, Replied) for event in events),
        "in_doubt": sum(isinstance(event, InDoubt) for event in events),
    }


def points(machine: Path, lines: Path, work: Path, every: int) -> Iterator[dict[str, Any]]:
    """The unharmed batch, then the points before and after one of so many appends."""
    loaded = load(machine)

    def run(name: str, killer: Killer) -> dict[str, Any]:
        folder = work / name
        folder.mkdir(parents=True)
        child = os.fork()
        if child == 0:
            asyncio.run(_run(loaded, lines, folder, killer))
            os._exit(0)
        ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        asyncio.run(_run(loaded, lines, folder, Killer()))
        calls = len(list(folder.glob("call_*")))
        return {**asyncio.run(_told(folder)), "calls": calls, "ended": ended}

    yield run("unharmed", Killer())
    for moment in ("before", "after"):
        number = 1
        while True:
            told = run(f"{moment}_{number}", Killer(moment, number))
            if told["ended"] == 0:
                # There are no more appends.
                break
            yield told
            number += every


if __name__ == "__main__":
    machine, lines, work = map(Path, sys.argv[1:4])
    for told in points(machine, lines, work, int(sys.argv[4])):
        print(json.dumps(told), flush=True)
