"""`each` over a slow server, beside the ideal, and memory of an item: `python benchmarks/each.py`.

The ideal is ITEMS x DELAY / PARALLEL. Each round is a fresh process; what it takes to start is that
of a list of one item, of the same round. Memory is what ITEMS items take more than one, at most.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from batch import MACHINE as CHILD
from calls import served
from table import machine

ITEMS = 600
DELAY_MS = 200
PARALLEL = (1, 10, 50)
MACHINE = """
loopkit: 1
input: {notes: [int]}
states:
  notes:
    each: input.notes
    as: note
    key: note
    max_items: 1000
    parallel: AT_A_TIME
    machine: child.yaml
    input: {n: "{{ note }}"}
    transitions:
      - {guard: failed == 0, target: done}
      - {target: failed}
  done: {final: success, result: notes}
  failed: {final: failure}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    ideals: dict[int, list[float]] = {parallel: [] for parallel in PARALLEL}
    memory: dict[int, list[float]] = {parallel: [] for parallel in PARALLEL}
    with served(Path(sys.executable), DELAY_MS) as port:
        for number in range(1, rounds + 1):
            print(f"round {number} of {rounds}", file=sys.stderr)
            start_s, least_kib = measured(port, 1, 1)
            for parallel in PARALLEL:
                # One at a time takes two minutes for what shows in a tenth of the items.
                items = ITEMS if parallel > 1 else ITEMS // 10
                ideal_s = items * DELAY_MS / 1000 / parallel
                spent_s, most_kib = measured(port, items, parallel)
                ideals[parallel].append(ideal_s / (spent_s - start_s + DELAY_MS / 1000))
                memory[parallel].append((most_kib - least_kib) / (items - 1))
    print(machine(), table(ideals, memory), sep="\n\n")


def measured(port: int, items: int, parallel: int) -> tuple[float, int]:
    """How long a run takes, from its command line to its end, and its memory in KiB."""
    with tempfile.TemporaryDirectory() as fresh:
        folder = Path(fresh)
        (folder / "child.yaml").write_text(CHILD.replace("PORT", str(port)), encoding="utf-8")
        (folder / "each.yaml").write_text(
            MACHINE.replace("AT_A_TIME", str(parallel)), encoding="utf-8"
        )
        given = json.dumps({"notes": list(range(items))})
        (folder / "in.json").write_text(given, encoding="utf-8")
        argv = [
            sys.executable, "-m", "loopkit", "run", "each.yaml", "--input", "in.json",
            "--output", "quiet",
        ]  # fmt: skip
        variables = {**os.environ, "BENCHMARK_KEY": "none", "LOOPKIT_STATE": f"{fresh}/.loopkit"}
        started = time.perf_counter()
        with (folder / "out.json").open("w") as out:
            process = subprocess.Popen(argv, cwd=folder, env=variables, stdout=out)
            _, status, used = os.wait4(process.pid, 0)
        spent = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        results = json.loads((folder / "out.json").read_text(encoding="utf-8"))
        if process.returncode or sum(one["success"] for one in results.values()) != items:
            raise AssertionError(f"exit code {process.returncode}, {len(results)} results")
    return spent, used.ru_maxrss


def table(ideals: dict[int, list[float]], memory: dict[int, list[float]]) -> str:
    """The part of the ideal that is reached, and KiB of an item, as Markdown."""
    head = (
        "| items at a time | of the ideal: minimum, median, maximum | KiB an item: the same |",
        "|---|---|---|",
    )
    return "\n".join((*head, *(_row(number, ideals, memory) for number in ideals)))


def _row(number: int, ideals: dict[int, list[float]], memory: dict[int, list[float]]) -> str:
    found, taken = ideals[number], memory[number]
    parts = f"{min(found):.0%}, {statistics.median(found):.0%}, {max(found):.0%}"
    kib = f"{min(taken):.1f}, {statistics.median(taken):.1f}, {max(taken):.1f}"
    return f"| {number} | {parts} | {kib} |"


if __name__ == "__main__":
    main()
