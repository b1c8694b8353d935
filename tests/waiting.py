"""Waiting for what happens, for as long as a busy machine may need."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
LONG_S = 300.0
"""Nothing takes so long but what never happens."""


def until(happened: Callable[[], T], what: object = "it") -> T:
    """What is told of something, once that is true of it."""
    ends = time.monotonic() + LONG_S
    while not (told := happened()):
        assert time.monotonic() < ends, f"{what} did not happen"
        time.sleep(0.01)
    return told


async def until_so(is_so: Callable[[], bool]) -> None:
    """Wait for it while other tasks go on."""
    async with asyncio.timeout(LONG_S):
        while not is_so():  # noqa: ASYNC110 - it happens in another process
            await asyncio.sleep(0.02)


def is_alive(process: int | str) -> bool:
    """Whether a process goes on; one that has ended and that nobody has waited for does not."""
    with suppress(OSError):
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False
