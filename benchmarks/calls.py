"""Model calls a second through an agent state, beside a bare loop over the same LiteLLM call.

`python benchmarks/calls.py --envs DIR`: interleaved rounds, each a fresh process.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from envs import child_variables, environments
from table import machine

HERE = Path(__file__).parent
CASES = {
    # (milliseconds until the server answers, calls at a time): calls in each loop
    (0, 1): 150,
    (0, 8): 40,
    (200, 1): 15,
    (200, 20): 15,
}
Results = Mapping[tuple[int, int], Mapping[str, Sequence[Mapping[str, float]]]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--envs", type=Path, required=True, metavar="DIR")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    options.envs.mkdir(parents=True, exist_ok=True)
    python = environments(options.envs, ["loopkit"])["loopkit"].python
    results: dict[tuple[int, int], dict[str, list[dict[str, float]]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for number in range(1, options.rounds + 1):
        print(f"round {number} of {options.rounds}", file=sys.stderr)
        for case in CASES:
            for caller in random.sample(["bare", "loopkit"], 2):
                results[case][caller].append(measured(python, caller, case, options.envs))
    print(machine(), table(results), sep="\n\n")


def measured(python: Path, caller: str, case: tuple[int, int], folder: Path) -> dict[str, float]:
    """One process against a server of its own."""
    delay_ms, concurrency = case
    with (
        served(python, delay_ms) as port,
        tempfile.TemporaryDirectory(dir=folder.absolute()) as fresh,
    ):
        argv = [
            str(python), str(HERE / f"caller_{caller}.py"), f"http://127.0.0.1:{port}/v1",
            str(concurrency), str(CASES[case]), fresh,
        ]  # fmt: skip
        done = subprocess.run(
            argv, cwd=fresh, env=child_variables(), capture_output=True, text=True, check=False
        )
    if done.returncode:
        raise SystemExit(f"{caller} failed:\n{done.stderr[-2000:]}")
    said: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return said


@contextmanager
def served(python: Path, delay_ms: int) -> Iterator[int]:
    argv = [str(python), str(HERE / "model_server.py"), str(delay_ms)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield int(server.stdout.readline())
        finally:
            server.terminate()


def table(results: Results) -> str:
    """Calls a second and their ratio within a round, as Markdown."""
    rows = [
        "| answer after | calls at a time | bare: calls/s, CPU ms a call | loopkit "
        "| ratio: least, median |",
        "|---|---|---|---|---|",
    ]
    for (delay_ms, concurrency), callers in results.items():
        pairs = zip(callers["loopkit"], callers["bare"], strict=True)
        ratios = [ours["calls_s"] / bare["calls_s"] for ours, bare in pairs]
        rows.append(
            f"| {delay_ms} ms | {concurrency} | {_shown(callers['bare'])} "
            f"| {_shown(callers['loopkit'])} "
            f"| {min(ratios):.0%}, {statistics.median(ratios):.0%} |"
        )
    return "\n".join(rows)


def _shown(measured: Sequence[Mapping[str, float]]) -> str:
    rate = statistics.median(one["calls_s"] for one in measured)
    return f"{rate:.0f}, {statistics.median(one['cpu_ms'] for one in measured):.1f}"


if __name__ == "__main__":
    main()
