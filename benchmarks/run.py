"""Measure loopkit beside its peers, interleaved: `python benchmarks/run.py --envs DIR`."""

from __future__ import annotations

import argparse
import random
import sys
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

from envs import Environment, environments
from measure import Measured, steps
from table import machine, ratio_table, steps_table

LOOPS = {"memory": 200, "kept": 200, "durable": 80}
QUICK_LOOPS = {"memory": 40, "kept": 40, "durable": 20}


def main() -> None:
    options = _options()
    options.envs.mkdir(parents=True, exist_ok=True)
    envs = environments(options.envs)
    rounds, loops = (2, QUICK_LOOPS) if options.quick else (options.rounds, LOOPS)
    results: dict[tuple[str, str], list[Measured]] = defaultdict(list)
    for number in range(1, rounds + 1):
        print(f"round {number} of {rounds}", file=sys.stderr)
        _measure_steps(envs, loops, options.envs, results)
    print(machine())
    versions = {peer: env.version for peer, env in envs.items()}
    versions["raw"] = f"SQLite {versions['raw']}"
    for text in (steps_table(results, versions), ratio_table(results)):
        print(f"\n{text}")


def _measure_steps(
    envs: Mapping[str, Environment],
    loops: Mapping[str, int],
    folder: Path,
    results: dict[tuple[str, str], list[Measured]],
) -> None:
    for mode in random.sample(sorted(loops), len(loops)):
        # All peers of one mode back to back, so that a ratio compares like with like.
        peers = ["loopkit"] if mode == "kept" else sorted(envs)
        for peer in random.sample(peers, len(peers)):
            results[peer, mode].append(steps(envs[peer], peer, mode, loops[mode], folder))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--envs", type=Path, required=True, metavar="DIR",
        help="where the environments are made and the databases written; on a real disk",
    )  # fmt: skip
    parser.add_argument("--rounds", type=int, default=5, help="how often everything is measured")
    parser.add_argument("--quick", action="store_true", help="two short rounds")
    options = parser.parse_args()
    if options.rounds < 1:
        parser.error("--rounds must be at least 1")
    return options


if __name__ == "__main__":
    main()
