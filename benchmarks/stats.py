"""What `loopkit stats` takes over thousands of runs: `python benchmarks/stats.py --folder DIR`.

The runs are played by a scenario and stored in a journal on disk. One in three is clean, one is
sent back once, one three times. The figures are compared with what that must come to.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from envs import child_variables
from table import machine

MACHINE = Path(__file__).with_name("phases.yaml")
AT_ONCE = 50
WORK_USD, JUDGED_USD = 0.01, 0.002
FAULTS = ((0, 0), (1, 0), (1, 2))
"""How often plan and code are sent back."""


def scenario(plan: int, code: int) -> dict[str, Any]:
    """A run whose plan and code are sent back so often, each time for two defects in new words."""
    works = [
        {"reply": f"{what}, version {number}. " * 20, "cost_usd": WORK_USD}
        for what, times in (("Plan", plan), ("Code", code))
        for number in range(times + 1)
    ]
    verdicts = [*judged(plan), *judged(code)]
    return {"scenario": 1, "agents": {"writer": works, "critic": verdicts}}


def judged(times: int) -> Iterator[dict[str, Any]]:
    for number in range(times):
        found = [
            {"message": f"Fault {one}, round {number}", "key": one, "severity": "error"}
            for one in ("a", "b")
        ]
        yield {"data": {"verdict": "fail", "findings": found}, "cost_usd": JUDGED_USD}
    yield {"data": {"verdict": "pass", "findings": []}, "cost_usd": JUDGED_USD}


async def play(folder: Path, runs: int) -> None:
    """Store so many played runs."""
    from loopkit.app import App, Script
    from loopkit.language.load import load
    from loopkit.scenario.cases import load_scenario

    loaded, scripts = load(MACHINE), []
    for number, faults in enumerate(FAULTS):
        file = folder / f"{number}.yaml"
        file.write_text(json.dumps(scenario(*faults)), encoding="utf-8")
        scripts.append(Script(*load_scenario(file)))
    numbers = iter(range(runs))

    async def some() -> None:
        for number in numbers:
            await app.drive(await app.start(loaded, {}, scripts[number % len(scripts)]))

    async with App.open(folder / ".loopkit") as app:
        await asyncio.gather(*(some() for _ in range(AT_ONCE)))


def measured(folder: Path, *options: str) -> tuple[tuple[float, float, float], str]:
    """Seconds, CPU seconds and MiB of `loopkit stats`, and its output."""
    argv, began = [sys.executable, "-m", "loopkit", "stats", *options], time.perf_counter()
    with open(folder / "told", "w+b") as told:
        child = subprocess.Popen(argv, cwd=folder, env=child_variables(), stdout=told)
        _, status, usage = os.wait4(child.pid, 0)
        lasted_s = time.perf_counter() - began
        told.seek(0)
        text = told.read().decode()
    if os.waitstatus_to_exitcode(status):
        raise SystemExit(f"{' '.join(argv)} failed")
    return (lasted_s, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024), text


def compare(text: str, runs: int) -> None:
    """Refuse figures that are not those of the runs that were played."""
    [found] = json.loads(text)["machines"]
    again = works = 0
    for number in range(runs):
        plan, code = FAULTS[number % len(FAULTS)]
        again, works = again + plan + code, works + plan + code + 2
    clean = (runs + len(FAULTS) - 1) // len(FAULTS)
    wanted = {"runs": runs, "finished": runs, "works": works, "corrections": again}
    told = {name: found[name] for name in wanted}
    if told != wanted or found["clean"]["runs"] != clean:
        raise SystemExit(f"{told} instead of {wanted}")


def shown(seconds: Sequence[float]) -> str:
    """Minimum, median and maximum."""
    return f"{min(seconds):.1f}, {median(seconds):.1f}, {max(seconds):.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path(), help="on a real disk")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    print(f"{machine()}\n\n| runs, form | seconds | CPU seconds | MiB |\n|---|---|---|---|")
    for runs in (1_000, 5_000):
        with tempfile.TemporaryDirectory(dir=options.folder.absolute()) as made:
            folder = Path(made)
            asyncio.run(play(folder, runs))
            compare(measured(folder, "--format", "json")[1], runs)
            for form in ("table", "json", "csv"):
                found = [measured(folder, "--format", form)[0] for _ in range(options.rounds)]
                wall, cpu, memory = zip(*found, strict=True)
                told = " | ".join((shown(wall), shown(cpu), f"{max(memory):.0f}"))
                print(f"| {runs:,}, {form} | {told} |", flush=True)


if __name__ == "__main__":
    main()
