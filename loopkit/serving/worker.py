"""A worker: drives submitted runs, a slice of each at a time, and leaves the rest to others."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence
from contextlib import suppress

from loopkit.agents.port import NotRunnable
from loopkit.app import App
from loopkit.document.problems import ProblemsFound
from loopkit.drive.active import ActiveRun
from loopkit.journal.contents import host_label
from loopkit.journal.errors import RunBusy, RunUnreadable
from loopkit.journal.records import Due
from loopkit.observability.logs import LOGGER
from loopkit.outside.processes import GROUPS
from loopkit.serving.host import DueRuns

LOG = LOGGER.getChild("worker")
_MOST_CHECKED = 1000
_LONGEST_END_S = 5.0
"""How long the end may take after the time of the drain: with its default, half a minute in all."""


class Worker(DueRuns):
    def __init__(
        self, app: App, *, parallel: int, labels: Sequence[str], slice_s: float, drain_s: float
    ) -> None:
        """At its end, steps in hand have `drain_s` seconds. It needs no label for its own host."""
        super().__init__(app)
        self.labels = tuple(dict.fromkeys((*labels, host_label())))
        self._parallel = parallel
        self._slice_s = slice_s
        self._drain_s = drain_s
        self._drain: asyncio.TimerHandle | None = None

    async def work(self) -> None:
        """Drive what is due until it is stopped, finish what is in hand, and close the app."""
        _log("started", labels=self.labels, parallel=self._parallel)
        hints = asyncio.create_task(self.app.journal.heed_hints(self._heed))
        self.keep_appointments()
        assert self._keeping is not None
        try:
            await self._keeping
        finally:
            hints.cancel()
            await self.close()
        if self._drain is not None:
            self._drain.cancel()
        _log("ended")

    def stop(self) -> None:
        super().stop()
        if self._drain is None:
            _log("stopping", runs=len(self._driven))
            loop = asyncio.get_running_loop()
            self._drain = loop.call_later(self._drain_s, self._abort)

    def _abort(self) -> None:
        for active in self._driven.values():
            active.abort()
        self._drain = asyncio.get_running_loop().call_later(_LONGEST_END_S, self._leave)

    def _leave(self) -> None:
        """End as if killed: a journal that does not answer is waited for in vain."""
        LOG.error("the journal does not answer; its runs are taken over", extra={"event": "fault"})
        GROUPS.end(lambda: os._exit(1))

    async def refusals(self) -> dict[str, str]:
        """Of runs that are due, why each can't be played here; empty if it can."""
        return {run: await self._refusal(run) for run, _ in await self._find_due(_MOST_CHECKED)}

    async def _refusal(self, run: str) -> str:
        try:
            state = await self.app.state_of(run)
            if not state.is_over:
                await self.app.refuse_here(state)
        except (NotRunnable, ProblemsFound, RunUnreadable) as error:
            return str(error)
        return ""

    @property
    def _room(self) -> int:
        return self._parallel - len(self._driven)

    async def _heed(self) -> None:
        self._left.clear()
        self._woken.set()
        # Others get the next hint, as long as there is no room here.
        while self._room <= 0:
            await asyncio.wait(self._driven, return_when=asyncio.FIRST_COMPLETED)

    async def _find_due(self, limit: int) -> Sequence[Due]:
        return await self.app.journal.due(limit, self.labels)

    async def _go_on(self, run: str) -> bool:
        state = await self.app.state_of(run)
        if state.is_over:
            await self.app.empty_inbox(run)
            return True
        if await self._is_in_vain(state):
            return False
        await self.app.refuse_here(state)
        with suppress(RunBusy):
            active = await self.app.resume(run)
            _log("taken", run)
            active.is_due_again = True
            self._drive(active)
        return True

    async def _work(self, active: ActiveRun) -> None:
        began = time.monotonic()
        over = asyncio.get_running_loop().call_later(self._slice_s, active.stop)
        try:
            await super()._work(active)
        finally:
            over.cancel()
        seconds = round(time.monotonic() - began, 3)
        _log("left", active.claim.run, status=active.state.status, seconds=seconds)

    def _say(self, run: str, fault: str) -> None:
        LOG.warning("%s: %s", run, fault, extra={"run": run, "event": "fault"})


def _log(event: str, run: str = "", **fields: object) -> None:
    place = {"run": run} if run else {}
    LOG.info("%s", f"{run}: {event}" if run else event, extra={**place, "event": event, **fields})
