"""What a round costs in a long run, beside the first ones: `python benchmarks/rounds.py`."""

from __future__ import annotations

import asyncio
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from loopkit.agents.port import Reply, Request
from loopkit.app import App
from loopkit.drive.stored_runs import Stored
from loopkit.engine.events import Worked
from loopkit.engine.records import Usage
from loopkit.language.load import load

MACHINE = """
loopkit: 1
limits: {{revisions: {revisions}, stall: 2}}
agents: {{author: {{model: some/model}}}}
states:
  draft:
    agent: author
    prompt: Write.
    output: plan
    next: check
  check:
    validate: plan
    by: [{{not_matches: 'TODO \\d+'}}, {{max_chars: 5000000}}]
    transitions:
      - {{guard: valid, target: done}}
      - {{revise: draft, feedback: "{{{{ findings[0].message }}}}"}}
      - {{target: failed}}
  done: {{final: success}}
  failed: {{final: failure}}
"""


class Author:
    """Writes a text of some size, each time another one that is still not right."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.number = 0

    async def ready(self) -> None:
        return None

    def quote(self, _: Request) -> Usage:
        return Usage(agent_calls=1)

    async def ask(self, _: Request) -> Reply:
        self.number += 1
        line = f"Text of version {self.number} with  blanks \t in it.  \n"
        text = f"# Goal\n\nTODO {self.number}\n\n" + line * (self.size // len(line))
        return Reply(text)


async def rounds(size: int, revisions: int) -> list[float]:
    """Processor seconds of each round of a run that is never right."""
    marks: list[float] = []

    def watch(stored: Stored) -> None:
        if isinstance(stored.event, Worked) and stored.event.report is not None:
            marks.append(time.process_time())

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "machine.yaml"
        path.write_text(MACHINE.format(revisions=revisions), encoding="utf-8")
        app = App.open(Path(folder) / ".loopkit", listeners=[watch])
        active = await app.start(load(path), {}, None)
        active.agents = {"author": Author(size)}
        await app.drive(active)
        await app.close()
    return [later - earlier for earlier, later in pairwise(marks)]


def tenths(spent: list[float]) -> Iterator[float]:
    """The middle round of the first, the fifth and the last tenth, in milliseconds."""
    size = len(spent) // 10
    for start in (0, 4 * size, len(spent) - size):
        yield 1000 * sorted(spent[start : start + size])[size // 2]


def main() -> None:
    print("| revisions | of | first tenth | fifth | last | last / first | memory |")
    print("|---|---|---|---|---|---|---|")
    for revisions, size in ((400, 20_000), (100, 1_000_000)):
        first, middle, last = tenths(asyncio.run(rounds(size, revisions)))
        used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        print(
            f"| {revisions} | {size // 1000} kB | {first:.1f} ms | {middle:.1f} ms "
            f"| {last:.1f} ms | {last / first:.2f} | {used} MB |"
        )


if __name__ == "__main__":
    sys.exit(main())
