"""How long 500 cases take: `python benchmarks/cases.py`, with the `test` extra installed."""

from __future__ import annotations

import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from envs import ROOT, child_variables

CASES = 500
FILES = 50
ROUNDS = 5
MACHINES = ROOT / "machines"
TRIVIAL = """\
import pytest

@pytest.mark.parametrize("n", range({count}))
def test_it(n):
    assert n >= 0
"""
PYTEST = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider")
LOOPKIT = (sys.executable, "-m", "loopkit", "test")
RUNS = {
    "pytest -n 2, 500 trivial tests": ("trivial", (*PYTEST, "-n", "2")),
    "pytest -n 2, one file": ("one", (*PYTEST, "-n", "2")),
    f"pytest -n 2, {FILES} files": ("many", (*PYTEST, "-n", "2")),
    "loopkit test, one file": ("one", LOOPKIT),
    f"loopkit test, {FILES} files": ("many", LOOPKIT),
}


def main() -> None:
    taken: dict[str, list[tuple[float, float]]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        projects = made(Path(folder))
        for _ in range(ROUNDS):
            for name in random.sample(sorted(RUNS), len(RUNS)):
                project, argv = RUNS[name]
                taken[name].append(measured(projects[project], argv))
    load = os.getloadavg()[2]
    print(f"{ROUNDS} rounds, {os.cpu_count()} cores, load over 15 minutes {load:.1f}\n")
    print("| what | seconds: minimum, median | CPU seconds: minimum, median |\n|---|---|---|")
    for name in RUNS:
        print(
            f"| {name} | {' | '.join(shown(times) for times in zip(*taken[name], strict=True))} |"
        )


def made(folder: Path) -> dict[str, Path]:
    """A project of each kind, the machine and its texts copied into each."""
    projects = {name: folder / name for name in ("trivial", "one", "many")}
    for project in projects.values():
        shutil.copytree(MACHINES, project, ignore=shutil.ignore_patterns("*.scenario.yaml"))
        (project / "pytest.ini").write_text("[pytest]\n")
    (projects["trivial"] / "test_it.py").write_text(TRIVIAL.format(count=CASES))
    write(projects["one"], 0, CASES)
    for number in range(FILES):
        write(projects["many"], number, CASES // FILES)
    return projects


def write(project: Path, number: int, count: int) -> None:
    """A scenario file with so many cases: those of the machine's own, again and again."""
    head, _, body = (MACHINES / "plan_review.scenario.yaml").read_text().partition("cases:\n")
    own = list(cases_of(body))
    first = number * count
    numbered = (own[n % len(own)].replace(":", f" {n}:", 1) for n in range(first, first + count))
    path = project / f"plan_review_{number}.scenario.yaml"
    path.write_text(f"{head}cases:\n{''.join(numbered)}")


def cases_of(body: str) -> Iterator[str]:
    """The text of each case."""
    case = ""
    for line in body.splitlines(keepends=True):
        if line.startswith("  ") and line[2:3].strip() and case:
            yield case
            case = ""
        case += line if line.strip() or case else ""
    yield case.rstrip("\n") + "\n"


def measured(project: Path, argv: tuple[str, ...]) -> tuple[float, float]:
    """Seconds on the clock, and of all processors, that a command takes."""
    before, started = cpu_s(), time.perf_counter()
    done = subprocess.run(
        argv, cwd=project, env=child_variables(), capture_output=True, text=True, check=False
    )
    seconds = time.perf_counter() - started
    if done.returncode:
        raise SystemExit(f"{' '.join(argv)} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return seconds, cpu_s() - before


def cpu_s() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return children.ru_utime + children.ru_stime


def shown(times: tuple[float, ...]) -> str:
    return f"{min(times):.1f}, {median(times):.1f}"


if __name__ == "__main__":
    main()
