"""The runs of a journal as a server shows them, and their pages.

Each is read, and its page made, once for as long as the run stays the same.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from loopkit.drive.stored_runs import Stored, StoredRuns, open_children, state_after
from loopkit.engine.events import ENDS, Waiting
from loopkit.engine.macrostep import Engine
from loopkit.engine.state import RunState
from loopkit.journal.errors import RunDamaged, RunUnreadable, UnknownRun
from loopkit.journal.records import RunRow
from loopkit.machine.program import Program
from loopkit.text.json_text import text_or_json
from loopkit.text.run_ids import batch_of
from loopkit.views.page.facts import read_facts
from loopkit.views.page.rendering import word_of
from loopkit.views.page.run_page import RunPage, Steps
from loopkit.views.run_data import (
    ChildRun,
    RunData,
    RunSummary,
    run_data,
    summary_of,
    unreadable_summary,
)
from loopkit.views.stats import RunStats, stats_of

KEPT_LOOKS = 5_000
COUNTED = 1_000
"""How many runs count in statistics: the last ones."""
SEARCHED = 2_000
"""The characters of a run in which a text is looked for."""
KEPT_RUNS = 8
KEPT_ENGINES = 20
LOOKED_AT = 1_000
"""How many runs are read at most to find those that are wanted, or to find open questions."""
GOING_ON = ("new", "running", "waiting", "suspended", "interrupted")
"""The statuses of runs that have not ended."""


class ListedQuestion(NamedTuple):
    run: str
    place: str
    """The place of that run in its family; empty for the root."""
    question: Waiting
    since: float
    """Unix time of its last event."""


class Wanted(NamedTuple):
    """Which runs are listed; None stands for any."""

    machine: str | None = None
    status: str | None = None
    """Also `succeeded` and `failed`, of those that have finished."""
    outcome: str | None = None
    text: str | None = None
    since: float | None = None
    until: float | None = None

    def fits(self, look: Look) -> bool:
        one = look.summary
        return (
            self.status in (None, one.status, word_of(one.status, one.success))
            and self.outcome in (None, one.outcome)
            and (self.text is None or self.text.casefold() in look.words)
        )


class Look(NamedTuple):
    """What lists show of a run, as of its last record."""

    written: tuple[float, int, bool]
    """Its time and number, and whether a process drives the run."""
    summary: RunSummary
    asked: Sequence[ListedQuestion]
    """What it and its children ask."""
    words: str = ""
    """In lower case: its id, its machine, its input, what it asks, and its result."""


K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")


class _LastUsed(OrderedDict[K, V]):
    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def keep(self, key: K, value: V) -> V:
        self[key] = value
        self.move_to_end(key)
        if len(self) > self._most:
            self.popitem(last=False)
        return value


_THREAD = ThreadPoolExecutor(1, "pages")
"""In which pages are made: an engine can be used by one thread only."""


async def run_in_page_thread(make: Callable[[], T]) -> T:
    return await asyncio.get_running_loop().run_in_executor(_THREAD, make)


@dataclass
class _Kept:
    history: list[Stored] = field(default_factory=list)
    state: RunState = field(default_factory=RunState)
    steps: Steps = field(default_factory=Steps)
    page: RunPage | None = None
    """The last page, if it stays valid until the next event of the run."""

    def go_on(self, run: str, news: Sequence[Stored]) -> None:
        """Apply the events since the last look; raises RunDamaged."""
        # The previous page may still be in use.
        self.history = [*self.history, *news]
        self.state = state_after(run, self.history)
        self.steps.after(news)
        self.page = None


class ShownRuns:
    def __init__(self, stored: StoredRuns) -> None:
        self.stored = stored
        self._looks = _LastUsed[str, Look](KEPT_LOOKS)
        """At runs without unfinished children, whose records are not in the run's own."""
        self._stats = _LastUsed[str, tuple[tuple[float, int, bool], RunStats]](COUNTED)
        self._kept = _LastUsed[str, _Kept](KEPT_RUNS)
        self._engines = _LastUsed[str, Engine](KEPT_ENGINES)
        self._one_at_a_time = asyncio.Lock()

    async def row(self, run: str) -> RunRow:
        """Raises UnknownRun and RunDamaged."""
        rows = await self.stored.journal.runs(run=run)
        if not rows:
            raise UnknownRun(run)
        if rows[0].damage is not None:
            raise rows[0].damage
        return rows[0]

    async def summaries(
        self, wanted: Wanted, before: str | None, limit: int
    ) -> tuple[list[RunSummary], str | None]:
        """Root runs, newest first, and the `before` of the next page, if there may be one."""
        found: list[RunSummary] = []
        looked_at = 0
        skipping = ENDS if wanted.status in GOING_ON else ()
        at_once = limit if wanted.until is None else LOOKED_AT
        while looked_at < LOOKED_AT:
            rows = await self.stored.journal.runs(
                wanted.machine, at_once, before=before, skipping=skipping
            )
            for row in rows:
                before = row.run
                if wanted.until is not None and row.created_at > wanted.until:
                    continue
                if wanted.since is not None and row.created_at < wanted.since:
                    return found, None
                looked_at += 1
                look = await self._look_at(row)
                if wanted.fits(look):
                    found.append(look.summary)
                if len(found) == limit or looked_at == LOOKED_AT:
                    return found, before
            if len(rows) < at_once:
                return found, None
        return found, before

    async def summary(self, row: RunRow) -> RunSummary:
        """The summary of a run; if its records can't be read, with the fault."""
        return (await self._look_at(row)).summary

    async def batch(self, batch: str) -> tuple[list[RunSummary], bool]:
        """The runs of a batch that have begun, and whether there are more."""
        names = await self.stored.journal.find_runs(f"{batch}-", LOOKED_AT + 1)
        rows = [row for name in names[:LOOKED_AT] if batch_of(name) == batch
                for row in await self.stored.journal.runs(run=name)]  # fmt: skip
        if not rows:
            raise UnknownRun(batch)
        return [await self.summary(row) for row in rows], len(names) > LOOKED_AT

    async def stats(self, machine: str | None) -> list[RunStats]:
        """The figures of the last runs and their children, but for those that were played."""
        found: list[RunStats] = []
        for row in await self.stored.journal.runs(machine, COUNTED, children=True):
            with suppress(UnknownRun, RunUnreadable):
                written = row.updated_at, row.seq, row.is_driven
                known = self._stats.get(row.run)
                if known is None or known[0] != written:
                    known = written, stats_of(row, await self.stored.events(row.run))
                found.append(self._stats.keep(row.run, known)[1])
        return [run for run in found if not run.played]

    async def _look_at(self, row: RunRow) -> Look:
        try:
            return await self._look(row)
        except RunUnreadable as fault:
            is_damaged = isinstance(fault, RunDamaged)
            summary = unreadable_summary(row, fault.cause, is_damaged=is_damaged)
            return Look((row.updated_at, row.seq, False), summary, (), row.run)

    async def _look(self, row: RunRow) -> Look:
        written = row.updated_at, row.seq, row.is_driven
        known = self._looks.get(row.run)
        if known is not None and known.written == written:
            return self._looks.keep(row.run, known)
        if row.damage is not None:
            raise row.damage
        state = await self.stored.state_of(row.run)
        asked: list[ListedQuestion] = []
        for one in await self.stored.questions_of(state):
            asker = await self.row(one.state.run)
            asked.append(ListedQuestion(asker.run, one.place, one.question, asker.updated_at))
        summary = summary_of(row, state, await self.stored.usage_of(state))
        finished = state.finished.result if state.finished else {}
        told = [*state.input.values(), *(one.question.text for one in asked), *finished.values()]
        words = " ".join((row.run, row.machine, *map(text_or_json, told)))[:SEARCHED].casefold()
        look = Look(written, summary, asked, words)
        if state.is_over or not open_children(state):
            self._looks.keep(row.run, look)
        return look

    async def data(self, run: str) -> RunData:
        row = await self.row(run)
        state = await self.stored.state_of(run)
        children = [child async for child in self._children(state)]
        asked = await self.stored.questions_of(state)
        return run_data(await self.summary(row), state, asked, children)

    async def waiting(self) -> list[ListedQuestion]:
        """The open questions of runs and their children, newest run first."""
        asked: list[ListedQuestion] = []
        for row in await self.stored.journal.runs(limit=LOOKED_AT, skipping=ENDS):
            # Runs that are damaged or were removed meanwhile have no open questions.
            with suppress(UnknownRun, RunUnreadable):
                asked += (await self._look(row)).asked
        return asked

    async def _children(self, state: RunState) -> AsyncIterator[ChildRun]:
        for began in (one.started for of in state.children.values() for one in of.values()):
            for row in await self.stored.journal.runs(run=began.child):
                summary = await self.summary(row)
                yield ChildRun(state=began.state, key=began.key, summary=summary)

    async def page(self, run: str) -> RunPage:
        await self.row(run)
        async with self._one_at_a_time:
            kept = await self._read(run)
            if kept.page is not None:
                return kept.page
            state = kept.state
            history = kept.history
            steps = kept.steps
            engine = await self._engine(state)
            page = RunPage(
                await read_facts(self.stored, state, history, engine, time.time()), steps
            )
            is_still = not page.is_live and state.suspended is None and not open_children(state)
            kept.page = page if is_still else None
            return page

    async def _read(self, run: str) -> _Kept:
        kept = self._kept.pop(run, None) or _Kept()
        last = kept.history[-1:]
        news = await self.stored.events(run, last[0].seq - 1 if last else 0)
        if news[:1] != last[:1] and last:
            # Another run with the same id, for example in a journal that replaced the old one.
            kept, last = _Kept(), []
            news = await self.stored.events(run)
        if news := news[len(last) :]:
            await run_in_page_thread(lambda: kept.go_on(run, news))
        return self._kept.keep(run, kept)

    async def _engine(self, state: RunState) -> Engine:
        """The engine of a run's definition, for reading only: it drives no run."""
        digest = state.definition
        engine = self._engines.get(digest)
        if engine is None:
            machine = await self.stored.machine_of(state)
            engine = await run_in_page_thread(lambda: Engine(Program(machine, digest)))
        return self._engines.keep(digest, engine)
