"""200 runs at once on a journal in PostgreSQL: `python benchmarks/shared.py --journal URL`.

Steps a second and CPU a step of one process, whose agents sleep 20 to 60 ms, beside the same runs
on SQLite; and with `--dbos PYTHON`, which has `dbos` installed, as workflows of DBOS on the same
server. The database has to keep what it commits (`fsync`), or the figures mean nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from pathlib import Path

from envs import child_variables
from loop import STEPS, produce, require_final, validate
from table import machine

RUNS = 200
MACHINE = Path(__file__).with_name("notes.yaml")


async def answer(feedback: str) -> str:
    await asyncio.sleep(random.uniform(0.02, 0.06))
    return produce(feedback)


async def measured(one: Callable[[], Awaitable[None]]) -> None:
    """Print what the runs take, as JSON; what is only loaded for a first one is no step."""
    await one()
    # As docs/reference/python.md says for so many runs.
    gc.freeze()
    gc.set_threshold(100_000)
    began_s, cpu_s = time.perf_counter(), time.process_time()
    await asyncio.gather(*(one() for _ in range(RUNS)))
    steps = RUNS * STEPS
    told = {
        "steps/s": steps / (time.perf_counter() - began_s),
        "CPU ms a step": (time.process_time() - cpu_s) / steps * 1e3,
    }
    print(json.dumps(told))


async def with_loopkit(place: Path | str) -> None:
    from loopkit.agents.players import Messages
    from loopkit.app import App
    from loopkit.language.load import load

    loaded = load(MACHINE)

    async def write(prompt: str, _: Messages) -> str:
        parts = prompt.split("\n\n")
        return await answer(parts[-1] if len(parts) > 1 else "")

    async def one() -> None:
        state = await app.drive(await app.start(loaded, {}))
        require_final(state.finished and state.finished.result["note"])

    async with App.open(place, functions={"writer": write}) as app:
        await measured(one)


async def with_dbos(url: str) -> None:
    from dbos import DBOS

    DBOS(config={"name": "shared", "system_database_url": url, "log_level": "ERROR"})
    written, judged = DBOS.step()(answer), DBOS.step()(judge)

    @DBOS.workflow()
    async def loop() -> str:
        note = feedback = ""
        for revision in range(1, STEPS // 2 + 1):
            note = await written(feedback)
            feedback = await judged(note, revision)
        return note

    async def one() -> None:
        require_final(await (await DBOS.start_workflow_async(loop)).get_result())

    DBOS.launch()
    await measured(one)
    DBOS.destroy()


async def judge(note: str, revision: int) -> str:
    return validate(note, revision)


def measure(peer: str, url: str) -> None:
    if peer == "dbos":
        asyncio.run(with_dbos(url))
    elif peer == "sqlite":
        asyncio.run(with_loopkit(Path.cwd() / ".loopkit"))
    else:
        from loopkit.journal.postgres.migration import migrate

        place = f"{url}{'&' if '?' in url else '?'}schema=b{os.urandom(6).hex()}"
        migrate(place)
        asyncio.run(with_loopkit(place))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--journal", required=True, metavar="URL", help="a database, no schema")
    parser.add_argument("--dbos", metavar="PYTHON", help="one that has `dbos` installed")
    parser.add_argument("--folder", type=Path, default=Path(), help="on a real disk")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--peer", help="measure one peer, here and now")
    options = parser.parse_args()
    if options.peer:
        measure(options.peer, options.journal)
        return
    options.folder.mkdir(parents=True, exist_ok=True)
    pythons = {"sqlite": sys.executable, "postgres": sys.executable}
    pythons |= {"dbos": options.dbos} if options.dbos else {}
    found: dict[tuple[str, str], list[float]] = defaultdict(list)
    for _ in range(options.rounds):
        for peer in random.sample(list(pythons), len(pythons)):
            with tempfile.TemporaryDirectory(dir=options.folder.absolute()) as fresh:
                argv = [pythons[peer], __file__, "--peer", peer, "--journal", options.journal]
                done = subprocess.run(
                    argv, cwd=fresh, env=child_variables(), stdout=subprocess.PIPE, check=True
                )
            for what, number in json.loads(done.stdout.splitlines()[-1]).items():
                found[what, peer].append(number)
    print(machine())
    for (what, peer), numbers in sorted(found.items()):
        least, middle, most = min(numbers), statistics.median(numbers), max(numbers)
        print(f"{what}, {peer}: {least:.2f}, {middle:.2f}, {most:.2f}")
    for peer, than in (("postgres", "sqlite"), ("postgres", "dbos")):
        if than in pythons:
            pairs = zip(found["steps/s", peer], found["steps/s", than], strict=True)
            ratios = sorted(one / other for one, other in pairs)
            print(f"steps/s, {peer} / {than}: {', '.join(f'{ratio:.2f}' for ratio in ratios)}")


if __name__ == "__main__":
    main()
