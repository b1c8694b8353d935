"""What callers share: what they are asked for, and how they tell what they measured."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path

PROMPT = "Write a note about the release. " * 10


@dataclass(frozen=True)
class Asked:
    """`CALLER BASE_URL CONCURRENCY CALLS FOLDER`: so many calls in each of so many loops."""

    base_url: str
    concurrency: int
    calls: int
    folder: Path
    warming: int = 10
    prompt: str = PROMPT

    @classmethod
    def read(cls) -> Asked:
        base_url, concurrency, calls, folder = sys.argv[1:]
        return cls(base_url, int(concurrency), int(calls), Path(folder))


def told(asked: Asked, seconds: float, cpu_s: float) -> None:
    """Print calls a second, and CPU milliseconds a call."""
    calls = asked.concurrency * asked.calls
    print(json.dumps({"calls_s": calls / seconds, "cpu_ms": 1000 * cpu_s / calls}))
