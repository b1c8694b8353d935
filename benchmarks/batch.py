"""`loopkit run --batch` over a slow server, beside the ideal: `python benchmarks/batch.py`.

The ideal is LINES x DELAY / PARALLEL. Each round is a fresh process; what it takes to start is that
of a batch of one line, of the same round.
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

from calls import served
from table import machine

LINES = 600
DELAY_MS = 200
PARALLEL = (1, 10, 50)
MACHINE = """
loopkit: 1
input: {n: int}
agents:
  writer:
    model: openai/gpt-4o-mini
    base_url: http://127.0.0.1:PORT/v1
    api_key_env: BENCHMARK_KEY
    params: {max_tokens: 100}
states:
  draft: {agent: writer, prompt: "Write note {{ input.n }}.", output: note, next: judge}
  judge: {validate: note, by: [{min_chars: 1}], next: done}
  done: {final: success, result: note}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    measured: dict[int, list[float]] = {parallel: [] for parallel in PARALLEL}
    with served(Path(sys.executable), DELAY_MS) as port:
        for number in range(1, rounds + 1):
            print(f"round {number} of {rounds}", file=sys.stderr)
            start_s = seconds(port, 1, 1)
            for parallel in PARALLEL:
                # One at a time takes two minutes for what shows in a tenth of the lines.
                lines = LINES if parallel > 1 else LINES // 10
                ideal_s = lines * DELAY_MS / 1000 / parallel
                spent_s = seconds(port, lines, parallel) - start_s + DELAY_MS / 1000
                measured[parallel].append(ideal_s / spent_s)
    print(machine(), table(measured), sep="\n\n")


def seconds(port: int, lines: int, parallel: int) -> float:
    """How long a batch takes, from its command line to its end."""
    with tempfile.TemporaryDirectory() as fresh:
        folder = Path(fresh)
        (folder / "machine.yaml").write_text(MACHINE.replace("PORT", str(port)), encoding="utf-8")
        inputs = "".join(f"{json.dumps({'n': number})}\n" for number in range(lines))
        (folder / "in.jsonl").write_text(inputs, encoding="utf-8")
        argv = [
            sys.executable, "-m", "loopkit", "run", "machine.yaml", "--batch", "in.jsonl",
            "--parallel", str(parallel), "-o", "out.jsonl", "--output", "quiet",
        ]  # fmt: skip
        variables = {**os.environ, "BENCHMARK_KEY": "none", "LOOPKIT_STATE": f"{fresh}/.loopkit"}
        started = time.perf_counter()
        subprocess.run(argv, cwd=folder, env=variables, check=True)
        spent = time.perf_counter() - started
        results = (folder / "out.jsonl").read_text(encoding="utf-8").splitlines()
        if len(results) != lines:
            raise AssertionError(f"{len(results)} of {lines} lines have a result")
    return spent


def table(measured: dict[int, list[float]]) -> str:
    """The part of the ideal that is reached, as Markdown."""
    rows = [
        f"| {parallel} | {min(found):.0%}, {statistics.median(found):.0%}, {max(found):.0%} |"
        for parallel, found in measured.items()
    ]
    head = ("| lines at a time | of the ideal: minimum, median, maximum |", "|---|---|")
    return "\n".join((*head, *rows))


if __name__ == "__main__":
    main()
