"""The default surroundings of a run: the system's time, and nobody to ask."""

from __future__ import annotations

import asyncio
import time

from loopkit.engine.events import HumanAnswer
from loopkit.engine.macrostep import Engine
from loopkit.engine.state import RunState


class RealClock:
    """The system's time."""

    now = staticmethod(time.time)
    monotonic = staticmethod(time.monotonic)
    sleep = staticmethod(asyncio.sleep)


class NobodyThere:
    """No person can be asked: the run waits."""

    async def answer(self, engine: Engine, run: RunState) -> HumanAnswer | None:
        return None
