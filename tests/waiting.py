"""Waiting for what happens, for as long as a busy machine may need."""

from __future__ import annotations

import time
from collections.abc import Callable
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
