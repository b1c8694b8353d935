"""The long form: `python -m tests.hostile --count 20000`."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import count, islice

from loopkit.agents.model.client import ready
from tests.hostile.forked import Outcome, forked
from tests.hostile.generators import GENERATORS, hostile
from tests.hostile.played import play

BATCH = 200
DEADLINE_S = 2.0
"""How long each command may work."""
MOST_S = 20.0
"""When all commands of one input are given up."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.hostile", description=__doc__)
    parser.add_argument("--count", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="the name of one generator")
    options = parser.parse_args()
    numbers = _numbers(options.only)
    worst: Counter[str] = Counter()
    wrong = 0
    for number, outcome in played(options.seed, list(islice(numbers, options.count))):
        kind = GENERATORS[number % len(GENERATORS)].__name__
        worst[kind] = max(worst[kind], round(outcome.work_s * 1000))  # type: ignore[assignment]
        if told := outcome.fault or outcome.value:
            wrong += 1
            said = f"seed {options.seed}, input {number} ({kind}): {told}"
            # It may quote halves of surrogate pairs.
            print(said.encode(errors="backslashreplace").decode(), flush=True)
    for kind, work_ms in worst.most_common():
        print(f"{kind}: {work_ms / 1000:.2f} s at most")
    print(f"{options.count:,} inputs, {wrong:,} went wrong")
    return 1 if wrong else 0


def played(seed: int, numbers: Sequence[int]) -> Iterator[tuple[int, Outcome]]:
    """Each input with what came of it; loading LiteLLM is the work of none."""
    asyncio.run(ready())
    for start in range(0, len(numbers), BATCH):
        batch = numbers[start : start + BATCH]
        jobs = [partial(_play, seed, number) for number in batch]
        yield from zip(batch, forked(jobs, MOST_S), strict=True)


def _play(seed: int, number: int) -> str:
    return play(hostile(seed, number), DEADLINE_S)


def _numbers(only: str) -> Iterator[int]:
    names = [generator.__name__ for generator in GENERATORS]
    if only:
        return count(names.index(only), len(names))
    return count()


if __name__ == "__main__":
    sys.exit(main())
