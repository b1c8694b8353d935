"""The played clock: pauses pass at once, and all other work takes no time."""

from __future__ import annotations

import asyncio
from math import inf, nextafter

START = 1_767_225_600.0
"""Unix time at which every case begins: midnight of 2026-01-01, UTC."""


class PlayedClock:
    """The time of one case. Pauses that begin together end as if they had passed together."""

    def __init__(self) -> None:
        self._time = START

    def now(self) -> float:
        return self._time

    def monotonic(self) -> float:
        return self._time

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            return
        # Rounded up: a sleeper must never wake before the time that it waits for.
        end = nextafter(self._time + seconds, inf)
        await asyncio.sleep(0)
        self._time = max(self._time, end)
