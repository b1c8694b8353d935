"""The deadline of rules: judging takes no longer than what is left of the run's time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from loopkit.drive.active import ActiveRun
from loopkit.drive.limits import LimitReached, time_left


@asynccontextmanager
async def limit_time(active: ActiveRun) -> AsyncIterator[None]:
    """While rules judge: whatever runs when the time is over is ended; raises LimitReached.

    A verdict that comes too late is none, so that the limit, and nothing else, is what is reached.
    Where the run went on behind a limit it may judge to its end.
    """
    is_over = active.state.then_used
    left_s = None if is_over else time_left(active.limits, active.state.committed)
    started = active.clock.monotonic()
    deadline = asyncio.timeout(left_s)
    try:
        async with deadline:
            yield
    except TimeoutError as error:
        if not deadline.expired():
            raise
        raise _reached(active, active.clock.monotonic() - started) from error
    spent_s = active.clock.monotonic() - started
    if left_s is not None and spent_s >= left_s:
        raise _reached(active, spent_s)


def _reached(active: ActiveRun, spent_s: float) -> LimitReached:
    reached = LimitReached("time", active.limits["time"], active.state.committed.time_s + spent_s)
    reached.time_s = spent_s
    return reached
