"""1,000 runs at once on one durable journal: `python benchmarks/many.py --folder DIR`.

Steps a second, and the memory of a run that waits for its first answer. Beside it `raw`: as many
coroutines that insert a row a step and share the commits of each turn of the event loop.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import random
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

from envs import child_variables
from loop import STEPS, produce, require_final, validate
from table import machine

RUNS = 1_000
MACHINE = Path(__file__).with_name("notes.yaml")


class Gate:
    """Holds each run at its first call until all have come, and notes the memory then.

    What is measured begins with it: what a process loads before is no step.
    """

    def __init__(self) -> None:
        self._here, self._open = 0, asyncio.Event()
        self._before = resident()
        self.kib_a_run = 0.0
        self.began_s, self.cpu_s = time.perf_counter(), time.process_time()

    async def wait(self) -> None:
        self._here += 1
        if self._here == RUNS:
            self.kib_a_run = (resident() - self._before) / RUNS / 1024
            self._open.set()
        await self._open.wait()


def resident() -> int:
    """Bytes of memory that this process holds."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


async def with_loopkit(folder: Path) -> Gate:
    from loopkit.agents.players import Messages
    from loopkit.app import App
    from loopkit.language.load import load

    loaded, gate = load(MACHINE), None

    async def write(prompt: str, _: Messages) -> str:
        parts = prompt.split("\n\n")
        if len(parts) == 1 and gate is not None:
            await gate.wait()
        return produce(parts[-1] if len(parts) > 1 else "")

    async def one() -> None:
        state = await app.drive(await app.start(loaded, {}))
        require_final(state.finished and state.finished.result["note"])

    app = App.open(folder / ".loopkit", functions={"writer": write})
    # What is only loaded when a run first needs it is no step either.
    await one()
    # As docs/reference/python.md says for so many runs.
    gc.freeze()
    gc.set_threshold(100_000)
    gate = Gate()
    await asyncio.gather(*(one() for _ in range(RUNS)))
    await app.close()
    return gate


async def raw(folder: Path) -> Gate:
    gate, waiting = Gate(), list[asyncio.Future[None]]()
    db = sqlite3.connect(folder / "raw.db", isolation_level=None)
    db.executescript("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; CREATE TABLE steps (text)")
    loop = asyncio.get_running_loop()

    def commit() -> None:
        db.execute("COMMIT")
        while waiting:
            waiting.pop().set_result(None)

    async def store(text: str) -> None:
        if not waiting:
            db.execute("BEGIN IMMEDIATE")
            loop.call_soon(commit)
        waiting.append(loop.create_future())
        db.execute("INSERT INTO steps VALUES (?)", [text])
        await waiting[-1]

    async def one() -> None:
        note = feedback = ""
        for revision in range(1, STEPS // 2 + 1):
            if not feedback:
                await gate.wait()
            note = produce(feedback)
            await store(note)
            feedback = validate(note, revision)
            await store(feedback)
        require_final(note)

    await asyncio.gather(*(one() for _ in range(RUNS)))
    db.close()
    return gate


PEERS = {"raw": raw, "loopkit": with_loopkit}


def measure(peer: str) -> None:
    """Print what one peer does in this process, as JSON."""
    gate = asyncio.run(PEERS[peer](Path.cwd()))
    steps = RUNS * STEPS
    told = {
        "steps/s": steps / (time.perf_counter() - gate.began_s),
        "CPU µs a step": (time.process_time() - gate.cpu_s) / steps * 1e6,
        "KiB a live run": gate.kib_a_run,
    }
    print(json.dumps(told))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path(), help="on a real disk")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--peer", choices=PEERS, help="measure one peer, here and now")
    options = parser.parse_args()
    if options.peer:
        measure(options.peer)
        return
    found: dict[tuple[str, str], list[float]] = defaultdict(list)
    for _ in range(options.rounds):
        for peer in random.sample(list(PEERS), len(PEERS)):
            with tempfile.TemporaryDirectory(dir=options.folder.absolute()) as fresh:
                argv = [sys.executable, __file__, "--peer", peer]
                done = subprocess.run(
                    argv, cwd=fresh, env=child_variables(), capture_output=True, text=True,
                    check=True,
                )  # fmt: skip
            for what, number in json.loads(done.stdout).items():
                found[peer, what].append(number)
    print(machine())
    for (peer, what), numbers in sorted(found.items()):
        least, middle, most = min(numbers), statistics.median(numbers), max(numbers)
        print(f"{peer}: {what}: {least:.1f}, {middle:.1f}, {most:.1f}")


if __name__ == "__main__":
    main()
