"""Runs on workers that die, over a database that dies: `python benchmarks/chaos.py --out DIR`.

The faults are made in parts, each with runs and a schema of its own. A part that is whole is in
`DIR/NAME/result.json` and is not made again, so that the command goes on where it was stopped; it
adds up what the parts have counted. `--show` makes the single shows instead of the parts, or some
of them. The exit code is 1 if anything is violated.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import signal
import statistics
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from chaos_counts import ZERO
from chaos_part import Part, Plan
from chaos_server import Server
from chaos_shows import SHOWS, Show
from table import machine

TAKEOVER_S = 5.0
"""Within this time 95 of 100 runs of a killed worker have a driver again."""


def share(total: int, part: int, parts: int) -> int:
    return total * (part + 1) // parts - total * part // parts


def plans(options: argparse.Namespace) -> list[Plan]:
    """What each part does."""
    found = []
    for number in range(options.parts):
        runs, kills, database_kills, stops = (
            share(total, number, options.parts)
            for total in (options.runs, options.kills, options.database_kills, options.stops)
        )
        plan = Plan(
            runs, kills, database_kills, stops, options.workers, options.ttl,
            in_flight=options.in_flight, seconds=options.seconds, rounds=options.rounds,
            beats_directly=number % 4 != 3, between_s=options.between,
        )  # fmt: skip
        found.append(replace(plan, worker=tuple(options.worker)) if options.worker else plan)
    return found


async def made(name: str, out: Path, server: Server, plan: Plan | Show) -> dict[str, Any]:
    """The result of a part or a show, which is made if it is not there yet."""
    folder = out / name
    result = folder / "result.json"
    if not result.exists():
        shutil.rmtree(folder, ignore_errors=True)
        schema = f"c{os.urandom(4).hex()}"
        if isinstance(plan, Plan):
            found = await Part(folder, schema, plan, server).play()
        else:
            folder.mkdir(parents=True)
            found = await plan(folder, schema, server)
        found["machine"] = machine()
        result.with_suffix(".new").write_text(json.dumps(found, indent=1), encoding="utf-8")
        result.with_suffix(".new").rename(result)
        print(f"{name}: {found.get('seconds', '')} s {' '.join(problems(found))}", flush=True)
    found = json.loads(result.read_text(encoding="utf-8"))
    assert isinstance(found, dict)
    return found


def problems(found: dict[str, Any]) -> list[str]:
    """What is violated in a part or a show."""
    counts = found.get("counts", {})
    told = [f"{counts[what]} {what}" for what in ZERO if counts.get(what)]
    return [*told, *found.get("violated", ())]


def show_times(what: str, times: Sequence[float]) -> None:
    if times:
        ordered = sorted(times)
        middle, late = statistics.median(ordered), ordered[int(len(ordered) * 0.95)]
        told = f"p50 {middle:.2f}, p95 {late:.2f}, longest {ordered[-1]:.2f} s"
        print(f"  a driver again after {what}: {told} (of {len(ordered)})")


def add_up(results: Sequence[dict[str, Any]]) -> bool:
    """Print the sums over all parts; whether nothing is violated."""
    counts, faults = Counter[str](), Counter[str]()
    times: dict[str, list[float]] = {}
    for found in results:
        counts.update(found["counts"])
        faults.update(found["faults"])
        for what, some in found["takeovers"].items():
            times.setdefault(what, []).extend(some)
    seconds = sum(found["seconds"] for found in results)
    print(f"{len(results)} parts in {seconds:.0f} s, {machine()}")
    for title, numbers in (("faults", faults), ("counted", counts)):
        told = ", ".join(f"{number} {what}" for what, number in numbers.items() if what not in ZERO)
        print(f"  {title}: {told}")
    for what, some in times.items():
        show_times(what, some)
    for what in ZERO:
        print(f"  {counts[what]} {what}")
    for found in results:
        for example in found["examples"]:
            print(f"    {example}", file=sys.stderr)
    return not any(problems(found) for found in results)


async def run(options: argparse.Namespace) -> bool:
    out: Path = options.out
    # What it has started ends with it.
    working = asyncio.current_task()
    assert working is not None
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, working.cancel)
    server = Server(out / "server")
    await server.start()
    try:
        if options.show is not None:
            shows = options.show or list(SHOWS)
            found = {each: await made(each, out, server, SHOWS[each]) for each in shows}
            for name, one in found.items():
                print(f"{name}: {json.dumps({k: v for k, v in one.items() if k != 'machine'})}")
            return not any(problems(one) for one in found.values())
        results = []
        for number, plan in enumerate(plans(options)):
            if options.until is not None and number >= options.until:
                break
            results.append(await made(f"part-{number:02}", out, server, plan))
        return add_up(results)
    finally:
        await server.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="on a real disk")
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--ttl", type=float, default=6.0)
    parser.add_argument("--kills", type=int, default=2000, help="kill -9 of workers")
    parser.add_argument("--database-kills", type=int, default=50)
    parser.add_argument("--stops", type=int, default=50, help="SIGSTOP of 1.5 TTL")
    parser.add_argument("--parts", type=int, default=20)
    parser.add_argument("--until", type=int, help="make no part from this number on")
    parser.add_argument("--in-flight", type=int, default=24)
    parser.add_argument("--seconds", type=float, default=3.0, help="mean of a call")
    parser.add_argument("--rounds", type=int, default=20, help="mean of a run")
    parser.add_argument("--between", type=float, default=10.0, help="between kills of a worker")
    parser.add_argument("--worker", nargs="+", help="another command than `loopkit worker`")
    parser.add_argument("--show", nargs="*", choices=SHOWS, help="make these shows, or all")
    options = parser.parse_args()
    options.out = options.out.absolute()
    project = options.out / "project"
    project.mkdir(parents=True, exist_ok=True)
    # The programs work there: workers look at all files of the folder after each.
    os.chdir(project)
    try:
        is_sound = asyncio.run(run(options))
    except asyncio.CancelledError:
        sys.exit("stopped; the same command goes on with the parts that are left")
    sys.exit(0 if is_sound else 1)


if __name__ == "__main__":
    main()
