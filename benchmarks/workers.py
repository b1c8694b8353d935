"""Submitted runs by 1, 2 and 4 workers: `python benchmarks/workers.py --out DIR`.

The runs are played from a scenario, whose agents answer at once, so that the workers and the
database are all there is to wait for. DIR is on a real disk and can be entered by everybody.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import psutil
import psycopg
from chaos_server import Server
from envs import child_variables
from loop import COMPLAINT, FINAL, STEPS, produce
from table import machine

from loopkit.journal.postgres.migration import migrate

HERE = Path(__file__).parent
LOOPKIT = Path(sys.executable).with_name("loopkit")


def cpu_s(processes: list[psutil.Process]) -> float:
    return sum(sum(each.cpu_times()[:2]) for each in processes)


def drive(server: Server, folder: Path, workers: int, runs: int) -> dict[str, float]:
    """What `workers` take for `runs` that are submitted before they start."""
    schema = f"w{os.urandom(6).hex()}"
    url = f"{server.url}&schema={schema}"
    migrate(url)
    variables = {**child_variables(), "LOOPKIT_JOURNAL": url}
    submit = ["submit", "notes.yaml", "--script", "notes.scenario.yaml", "--batch", "runs.jsonl"]
    (folder / "runs.jsonl").write_text("{}\n" * runs, encoding="utf-8")
    subprocess.run(
        [LOOPKIT, *submit, "-o", f"{schema}.jsonl"],
        cwd=folder, env=variables, stdout=subprocess.DEVNULL, check=True,
    )  # fmt: skip
    with psycopg.connect(server.url, autocommit=True) as db:

        def ask(query: str) -> Any:
            row = db.execute(query.replace("@", f'"{schema}".').encode()).fetchone()
            assert row
            return row

        commits = "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()"
        ended = "SELECT count(*) FROM @records WHERE type = 'finished'"
        (before,) = ask(commits)
        command = [LOOPKIT, "worker", "--parallel", str(max(runs // workers // 2, 1))]
        started = [
            psutil.Popen(command, cwd=folder, env=variables, stderr=subprocess.DEVNULL)
            for _ in range(workers)
        ]
        postgres = psutil.Process(server.pid)
        database_s = cpu_s([postgres, *postgres.children()])
        while ask(ended)[0] < runs:
            if dead := [each.pid for each in started if each.poll() is not None]:
                raise AssertionError(f"workers that ended by themselves: {dead}")
            time.sleep(0.2)
        spent_s = cpu_s(started)
        database_s = cpu_s([postgres, *postgres.children()]) - database_s
        (after,) = ask(commits)
        claimed = "SELECT min(at) FROM @records WHERE epoch > 1"
        first, last = ask(f"SELECT ({claimed}), max(at) FROM @records")
        (result,) = ask("SELECT data FROM @records WHERE type = 'finished' LIMIT 1")
    for each in started:
        each.terminate()
    for each in started:
        each.wait(60)
    if FINAL not in result:
        raise AssertionError(f"a run ended with {result}")
    steps = runs * STEPS
    return {
        "steps/s": steps / (last - first),
        "commits/s": (after - before) / (last - first),
        "CPU ms a step, workers": spent_s / steps * 1e3,
        "CPU ms a step, database": database_s / steps * 1e3,
    }


async def measure(options: argparse.Namespace) -> None:
    # The files of a workspace are read after each call: those of the database are elsewhere.
    folder = options.out.absolute() / "project"
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(HERE / "notes.yaml", folder)
    replies = [produce(f"revision {number}: {COMPLAINT}" if number else "") for number in range(3)]
    scenario = {
        "scenario": 1,
        "machine": "notes.yaml",
        "cases": {"noted": {"agents": {"writer": replies}}},
    }
    (folder / "notes.scenario.yaml").write_text(json.dumps(scenario), encoding="utf-8")
    server = Server(options.out.absolute() / "server")
    await server.start()
    found: dict[tuple[str, int], list[float]] = defaultdict(list)
    try:
        for _ in range(options.rounds):
            for workers in random.sample(options.workers, len(options.workers)):
                measured = await asyncio.to_thread(drive, server, folder, workers, options.runs)
                for what, number in measured.items():
                    found[what, workers].append(number)
    finally:
        await server.stop()
    print(machine())
    for (what, workers), numbers in sorted(found.items()):
        least, middle, most = min(numbers), statistics.median(numbers), max(numbers)
        print(f"{what}, {workers} at work: {least:.2f}, {middle:.2f}, {most:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", required=True, type=Path, metavar="DIR")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--runs", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=3)
    asyncio.run(measure(parser.parse_args()))


if __name__ == "__main__":
    main()
