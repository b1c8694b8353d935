"""What a step costs in runs of 3, 30 and 200 rounds: `python benchmarks/growth.py --rounds 5`."""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from pathlib import Path

from loopkit.agents.players import Messages
from loopkit.app import App
from loopkit.language.load import Loaded, load

MACHINE = Path(__file__).with_name("notes.yaml")
LENGTHS = (3, 30, 200)
STEPS = 2000
"""How many each measurement goes through, at least."""


async def write(prompt: str, _: Messages) -> str:
    """A note that quotes the feedback, so that the last one quotes the last revision."""
    return f"A note after {prompt.rpartition(chr(10) * 2)[2]}"


def machine(rounds: int, folder: Path) -> Loaded:
    """The loop of the other benchmarks, right after so many rounds."""
    path = folder / f"{rounds}.yaml"
    text = MACHINE.read_text(encoding="utf-8")
    text = text.replace("matches: revision 2", f"matches: 'revision {rounds - 1}:'")
    path.write_text(text.replace("max: 5", f"max: {rounds}"), encoding="utf-8")
    return load(path)


async def measure(app: App, loaded: Loaded, rounds: int) -> float:
    """CPU µs a step."""
    repeats = max(1, STEPS // (2 * rounds))
    before = time.process_time()
    for _ in range(repeats):
        state = await app.drive(await app.start(loaded, {}))
        if len(state.route) != 2 * rounds:
            raise AssertionError(f"{len(state.route)} steps instead of {2 * rounds}")
    return (time.process_time() - before) * 1e6 / (repeats * 2 * rounds)


async def main(rounds: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        loaded = {length: machine(length, Path(folder)) for length in LENGTHS}
        spent: dict[int, list[float]] = {length: [] for length in LENGTHS}
        for number in range(rounds + 1):
            for length in LENGTHS:
                # Anew, because the journal in memory keeps every run.
                app = App.open(None, functions={"writer": write})
                measured = await measure(app, loaded[length], length)
                await app.close()
                # The first one warms up.
                if number:
                    spent[length].append(measured)
    print("| rounds | CPU µs a step: minimum, median |\n|---|---|")
    for length, each in spent.items():
        print(f"| {length} | {min(each):.0f}, {statistics.median(each):.0f} |")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    asyncio.run(main(parser.parse_args().rounds))
