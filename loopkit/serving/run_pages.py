"""The pages of runs; each is made once for as long as its run stays the same.

They are made in a separate thread, so the page of a long run does not delay other runs.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from typing import TypeVar

from loopkit.drive.archive import state_after
from loopkit.drive.stored_event import Stored
from loopkit.drive.stored_runs import open_children
from loopkit.engine.macrostep import Engine
from loopkit.engine.state import RunState
from loopkit.machine.program import Program
from loopkit.serving.shown_runs import ShownRuns
from loopkit.views.page.facts import read_facts
from loopkit.views.page.run_page import RunPage
from loopkit.views.page.steps import GrowingSteps

T = TypeVar("T")
KEPT_RUNS = 8
KEPT_ENGINES = 20


@cache
def _thread() -> ThreadPoolExecutor:
    """The thread in which pages are made: an engine can be used by one thread only."""
    return ThreadPoolExecutor(1, "pages")


async def run_in_page_thread(make: Callable[[], T]) -> T:
    """Call a function in the thread of pages and return its result."""
    return await asyncio.get_running_loop().run_in_executor(_thread(), make)


@dataclass
class _Kept:
    """A run whose page was requested."""

    history: list[Stored] = field(default_factory=list)
    state: RunState = field(default_factory=RunState)
    steps: GrowingSteps = field(default_factory=GrowingSteps)
    page: RunPage | None = None
    """The last page, if it stays valid until the next event of the run."""

    def go_on(self, run: str, news: Sequence[Stored]) -> None:
        """Apply the events since the last look; raises RunDamaged."""
        # The previous page may still be in use.
        self.history = [*self.history, *news]
        self.state = state_after(run, self.history)
        self.steps.take(news)
        self.page = None


class RunPages:
    """Makes the pages of the runs of a journal."""

    def __init__(self, runs: ShownRuns) -> None:
        self._runs = runs
        self._stored = runs.stored
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._engines: OrderedDict[str, Engine] = OrderedDict()
        self._one_at_a_time = asyncio.Lock()

    async def page(self, run: str) -> RunPage:
        """The page of a run; raises JournalError."""
        await self._runs.row(run)
        async with self._one_at_a_time:
            kept = await self._read(run)
            if kept.page is not None:
                return kept.page
            state, history, steps = kept.state, kept.history, kept.steps.steps
            engine = await self._engine(state)
            facts = await read_facts(self._stored, state, history, engine, time.time())
            page = RunPage(facts, steps)
            is_still = not page.is_live and state.suspended is None and not open_children(state)
            kept.page = page if is_still else None
            return page

    async def _read(self, run: str) -> _Kept:
        kept = self._kept.pop(run, None) or _Kept()
        last = kept.history[-1:]
        news = await self._stored.events(run, last[0].seq - 1 if last else 0)
        if news[:1] != last[:1] and last:
            # Another run with the same id, for example in a journal that replaced the old one.
            kept, last = _Kept(), []
            news = await self._stored.events(run)
        if news := news[len(last) :]:
            await run_in_page_thread(lambda: kept.go_on(run, news))
        self._kept[run] = kept
        while len(self._kept) > KEPT_RUNS:
            self._kept.popitem(last=False)
        return kept

    async def _engine(self, state: RunState) -> Engine:
        """The engine of a run's definition, for reading only: it drives no run."""
        digest = state.definition
        if digest not in self._engines:
            machine = await self._stored.machine_of(state)
            self._engines[digest] = await run_in_page_thread(
                lambda: Engine(Program(machine, digest))
            )
        self._engines.move_to_end(digest)
        while len(self._engines) > KEPT_ENGINES:
            self._engines.popitem(last=False)
        return self._engines[digest]
