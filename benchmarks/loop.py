"""The loop that every engine runs, and how one process measures it.

produce → validate, fail, fail, pass: three rounds, six steps. Only the
validator's feedback can make the note pass, so an engine that loses it never ends.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias, get_args

Mode: TypeAlias = Literal["memory", "kept", "durable"]
"""`kept` is `memory` with finished runs kept, which only loopkit can do."""
MODES: tuple[Mode, ...] = get_args(Mode)
STEPS = 6
WARM_UP = 10
NEEDED = "revision 2"
COMPLAINT = "say what was decided, by whom and until when."
FINAL = f"A note after revision 2: {COMPLAINT}"


def produce(feedback: str) -> str:
    """What the stub writes: a note that quotes the feedback it got."""
    return f"A note after {feedback}" if feedback else "A note."


def validate(note: str, revision: int) -> str:
    """The feedback for revision `revision`; empty where the note passes."""
    return "" if NEEDED in note else f"revision {revision}: {COMPLAINT}"


def require_final(note: object) -> None:
    if note != FINAL:
        raise AssertionError(f"the loop ended with {note!r}")


@dataclass
class Job:
    """What one process is asked to measure, by `MODE LOOPS FOLDER` on its command line."""

    mode: Mode
    loops: int
    folder: Path
    _seconds: list[float] = field(default_factory=list)
    _cpu_seconds: float = 0.0
    _commits: list[int] = field(default_factory=list)

    @classmethod
    def asked(cls) -> Job:
        asked, loops, folder = sys.argv[1:]
        for mode in MODES:
            if mode == asked:
                return cls(mode, int(loops), Path(folder))
        raise SystemExit(f"no mode {asked!r}; there are {', '.join(MODES)}")

    @property
    def durable(self) -> bool:
        return self.mode == "durable"

    def rounds(self, commits: Callable[[], int] | None = None) -> Iterator[int]:
        """The numbers of the loops; the body of the caller's `for` is what is timed.

        `commits` says how many there have been; it is asked around the second loop.
        """
        cpu_before = 0.0
        for number in range(WARM_UP + self.loops):
            if number == WARM_UP:
                cpu_before = time.process_time()
            started = time.perf_counter()
            yield number
            spent = time.perf_counter() - started
            if number >= WARM_UP:
                self._seconds.append(spent)
            if commits is not None and number < 2:
                self._commits.append(commits())
        self._cpu_seconds = time.process_time() - cpu_before

    def report(self) -> None:
        """Print one line of JSON: the median loop and the mean CPU in µs a step, commits a loop."""
        first, second = self._commits or (0, 0)
        measured = {
            "median_us": statistics.median(self._seconds) * 1e6 / STEPS,
            "cpu_us": self._cpu_seconds * 1e6 / STEPS / self.loops,
            "commits": second - first,
        }
        print(json.dumps(measured))
