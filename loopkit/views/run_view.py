"""A stored run as everybody prints it, and the runs of a journal, each read once for each event."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from loopkit.drive.stored_runs import OpenQuestion, Stored, StoredRuns, open_children, state_after
from loopkit.engine.events import ENDS, Cancelled, Claimed
from loopkit.engine.records import Usage
from loopkit.engine.state import RunState
from loopkit.journal.errors import RunDamaged, RunUnreadable, UnknownRun
from loopkit.journal.records import RunRow
from loopkit.text.json_text import text_or_json
from loopkit.text.run_ids import ancestors_of, batch_of, resume_line
from loopkit.views.console import noted
from loopkit.views.run_data import (
    MOST_SHOWN,
    AskedQuestion,
    ChildRun,
    RunData,
    RunSummary,
    standing_of,
    status_of,
    summary_of,
    unreadable_summary,
    word_of,
)
from loopkit.views.stats import RunStats, stats_of
from loopkit.views.steps import Steps

if TYPE_CHECKING:
    from loopkit.engine.macrostep import Engine

KEPT_LOOKS = 5_000
COUNTED = 1_000
"""How many runs count in statistics: the last ones."""
SEARCHED = 2_000
"""The characters of a run in which a text is looked for."""
KEPT_RUNS = 8
KEPT_ENGINES = 20
LOOKED_AT = 1_000
"""How many runs are read at most to find some of them."""
GOING_ON = ("new", "running", "waiting", "suspended", "interrupted")
"""The statuses of runs that have not ended."""
STATUSES = (
    *GOING_ON, "finished", "succeeded", "failed", "cancelled", "damaged", "unreadable",
)  # fmt: skip


@dataclass
class RunView:
    """A run, its events, and what the journal has about it besides."""

    row: RunRow
    history: Sequence[Stored]
    state: RunState
    steps: Steps
    engine: Engine
    usage: Usage
    """What it and its children have spent."""
    now: float
    """Unix time."""
    hints: Sequence[str] = ()
    """The commands that continue it, if it is suspended."""
    open_children: Mapping[str, RunState] = field(default_factory=dict)
    """The first of those that have not ended."""
    questions: Sequence[OpenQuestion] = ()
    """What it and its children ask."""

    @property
    def run(self) -> str:
        return self.state.run

    @property
    def machine(self) -> str:
        return self.state.machine

    @property
    def status(self) -> str:
        return status_of(self.state, is_driven=self.row.is_driven)

    @property
    def is_live(self) -> bool:
        """Whether the run may continue without anyone acting."""
        return self.status in ("new", "running")

    @property
    def is_still(self) -> bool:
        """Whether everything here holds until its next event."""
        state = self.state
        return not self.is_live and state.suspended is None and not open_children(state)

    @property
    def standing(self) -> str:
        return standing_of(self.state)

    @property
    def last(self) -> float:
        """Unix time of the last event, claims aside."""
        events = reversed(self.history)
        at = (each.at for each in events if not isinstance(each.event, Claimed))
        return next(at, self.steps.born)

    @property
    def stopped(self) -> list[str]:
        """Why it stopped, on the first line, then how to continue; empty if it did not stop."""
        if self.state.suspended is not None:
            return [self.state.suspended.message, *self.hints]
        if self.status == "interrupted":
            gone = "The process that drove the run is gone."
            return [gone, f"resume with: {resume_line(self.run)}"]
        cancelled = self.history[-1].event
        if isinstance(cancelled, Cancelled) and cancelled.reason:
            return [cancelled.reason]
        return []


class Look(NamedTuple):
    """What lists show of a run, as of its last record."""

    row: RunRow
    summary: RunSummary
    standing: str = ""
    asked: tuple[AskedQuestion, ...] = ()
    """What it and its children ask."""
    words: str = ""
    """In lower case: its id, its machine, its input, what it asks, and its result."""
    fault: RunUnreadable | None = None
    """Why its records can't be read."""


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


K = TypeVar("K")
V = TypeVar("V")
View = TypeVar("View", bound=RunView)


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


async def at_once(make: Callable[[], Any]) -> Any:
    return make()


@dataclass
class ReadRun(Generic[View]):
    """The events of a run, and what they come to."""

    history: list[Stored] = field(default_factory=list)
    state: RunState = field(default_factory=RunState)
    steps: Steps = field(default_factory=lambda: Steps(noting=noted))
    view: View | None = None
    """The last one, if it stays valid until the next event of the run."""

    def go_on(self, run: str, news: Sequence[Stored]) -> None:
        """Apply the events since the last look; raises RunDamaged."""
        # The previous view may still be in use.
        self.history = [*self.history, *news]
        self.state = state_after(run, self.history)
        self.steps.after(news)
        self.view = None


class RunViews(Generic[View]):
    """The runs of a journal as views of a kind; `work` does what takes long."""

    def __init__(
        self,
        stored: StoredRuns,
        kind: type[View],
        work: Callable[[Callable[[], Any]], Awaitable[Any]] = at_once,
    ) -> None:
        self.stored = stored
        self._kind = kind
        self._work = work
        self._looks = _LastUsed[str, Look](KEPT_LOOKS)
        """At runs without unfinished children, whose records are not in the run's own."""
        self._stats = _LastUsed[str, tuple[RunRow, RunStats]](COUNTED)
        self._kept = _LastUsed[str, ReadRun[View]](KEPT_RUNS)
        self._engines: _LastUsed[str, Engine] = _LastUsed(KEPT_ENGINES)
        self._one_at_a_time = asyncio.Lock()

    async def row(self, run: str) -> RunRow:
        """Raises UnknownRun."""
        rows = await self.stored.journal.runs(run=run)
        if not rows:
            raise UnknownRun(run)
        return rows[0]

    async def looks(
        self, wanted: Wanted, before: str | None, limit: int
    ) -> tuple[list[Look], str | None]:
        """Root runs, newest first, and the `before` of the next page, if there may be one."""
        found: list[Look] = []
        looked_at = 0
        skipping = ENDS if wanted.status in GOING_ON else ()
        most = limit if wanted.until is None else LOOKED_AT
        while looked_at < LOOKED_AT:
            rows = await self.stored.journal.runs(
                wanted.machine, most, before=before, skipping=skipping
            )
            for row in rows:
                before = row.run
                if wanted.until is not None and row.created_at > wanted.until:
                    continue
                if wanted.since is not None and row.created_at < wanted.since:
                    return found, None
                looked_at += 1
                look = await self.look(row)
                if wanted.fits(look):
                    found.append(look)
                if len(found) == limit or looked_at == LOOKED_AT:
                    return found, before
            if len(rows) < most:
                return found, None
        return found, before

    async def batch(self, batch: str) -> tuple[list[RunSummary], bool]:
        """The runs of a batch that have begun, and whether there are more."""
        names = await self.stored.journal.find_runs(f"{batch}-", LOOKED_AT + 1)
        rows = [row for name in names[:LOOKED_AT] if batch_of(name) == batch
                for row in await self.stored.journal.runs(run=name)]  # fmt: skip
        if not rows:
            raise UnknownRun(batch)
        return [(await self.look(row)).summary for row in rows], len(names) > LOOKED_AT

    async def stats(self, machine: str | None) -> list[RunStats]:
        """The figures of the last runs and their children, but for those that were played."""
        found: list[RunStats] = []
        for row in await self.stored.journal.runs(machine, COUNTED, children=True):
            with suppress(UnknownRun, RunUnreadable):
                known = self._stats.get(row.run)
                if known is None or known[0] != row:
                    events = await self.stored.events(row.run)
                    known = row, await self._work(partial(stats_of, row, events))
                found.append(self._stats.keep(row.run, known)[1])
        return [run for run in found if not run.played]

    async def look(self, row: RunRow) -> Look:
        """A look at a run; if its records can't be read, with the fault."""
        known = self._looks.get(row.run)
        if known is not None and known.row == row:
            return self._looks.keep(row.run, known)
        try:
            state = await self.stored.state_of(row.run)
            asked = tuple([await self._asked(one) for one in await self.stored.questions_of(state)])
            summary = summary_of(row, state, await self.stored.usage_of(state))
        except RunUnreadable as fault:
            is_damaged = isinstance(fault, RunDamaged)
            summary = unreadable_summary(row, fault.cause, is_damaged=is_damaged)
            return Look(row, summary, fault.cause, words=row.run, fault=fault)
        result = state.finished.result if state.finished else {}
        told = [*state.input.values(), *(one.question.text for one in asked), *result.values()]
        words = " ".join((row.run, row.machine, *map(text_or_json, told)))[:SEARCHED].casefold()
        look = Look(row, summary, standing_of(state), asked, words)
        if state.is_over or not open_children(state):
            self._looks.keep(row.run, look)
        return look

    async def _asked(self, one: OpenQuestion) -> AskedQuestion:
        asker = await self.row(one.state.run)
        return AskedQuestion(
            run=asker.run, place=one.place, question=one.question, since=asker.updated_at
        )

    async def data(self, run: str) -> RunData:
        look = await self.look(await self.row(run))
        if look.fault is not None:
            raise look.fault
        state = await self.stored.state_of(run)
        return RunData(
            summary=look.summary,
            parent=next(ancestors_of(run), None),
            definition=state.definition,
            folder=state.folder,
            input=state.input,
            limits=dict(state.limits),
            route=tuple(state.route),
            artifacts={name: artifact.version for name, artifact in state.artifacts.items()},
            report=state.last_report,
            questions=look.asked,
            answers=dict(state.answers),
            suspended=state.suspended,
            result=state.finished.result if state.finished else {},
            children=tuple([child async for child in self._children(state)]),
        )

    async def waiting(self) -> list[AskedQuestion]:
        """The open questions of runs and their children, newest run first."""
        asked: list[AskedQuestion] = []
        for row in await self.stored.journal.runs(limit=LOOKED_AT, skipping=ENDS):
            with suppress(UnknownRun):
                asked += (await self.look(row)).asked
        return asked

    async def _children(self, state: RunState) -> AsyncIterator[ChildRun]:
        for began in (one.started for of in state.children.values() for one in of.values()):
            for row in await self.stored.journal.runs(run=began.child):
                summary = (await self.look(row)).summary
                yield ChildRun(state=began.state, key=began.key, summary=summary)

    async def view(self, run: str) -> View:
        # Lists need no engine, and what it loads.
        from loopkit.views.hints import hints_for  # noqa: PLC0415

        async with self._one_at_a_time:
            kept, row = await self.read(run), await self.row(run)
            if kept.view is not None:
                return kept.view
            state, now, stored = kept.state, time.time(), self.stored
            begun = (child.started.child for child in open_children(state)[:MOST_SHOWN])
            view = self._kind(
                row=row,
                history=kept.history,
                state=state,
                steps=kept.steps,
                engine=await self._engine(state),
                usage=await stored.usage_of(state),
                now=now,
                hints=await hints_for(stored, state, now),
                open_children={
                    one: await stored.state_of(one)
                    for one in begun
                    if await stored.journal.has(one)
                },
                questions=await stored.questions_of(state),
            )
            kept.view = view if view.is_still else None
            return view

    async def read(self, run: str) -> ReadRun[View]:
        kept = self._kept.pop(run, None) or ReadRun[View]()
        last = kept.history[-1:]
        news = await self.stored.events(run, last[0].seq - 1 if last else 0)
        if news[:1] != last[:1] and last:
            # Another run with the same id, for example in a journal that replaced the old one.
            kept, last = ReadRun[View](), []
            news = await self.stored.events(run)
        if news := news[len(last) :]:
            await self._work(lambda: kept.go_on(run, news))
        return self._kept.keep(run, kept)

    async def _engine(self, state: RunState) -> Engine:
        from loopkit.engine.macrostep import Engine  # noqa: PLC0415
        from loopkit.machine.program import Program  # noqa: PLC0415

        digest = state.definition
        engine = self._engines.get(digest)
        if engine is None:
            machine = await self.stored.machine_of(state)
            engine = await self._work(lambda: Engine(Program(machine, digest)))
        return self._engines.keep(digest, engine)
