"""The runs of a journal as a server shows them: each read once for as long as it stays the same."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from typing import NamedTuple

from loopkit.drive.archive import state_after
from loopkit.drive.stored_runs import StoredRuns, unfinished
from loopkit.engine.events import ENDS, Waiting
from loopkit.engine.state import RunState
from loopkit.journal import RunDamaged, RunRow, RunUnreadable, UnknownRun
from loopkit.views.run_data import RunData, RunSummary, run_data, summary_of, unreadable_summary

KEPT_STATES = 200
KEPT_SUMMARIES = 5_000
LOOKED_AT = 1_000
"""How many runs are looked at for those of one status, of those that may have it, and for what
they ask, of those that go on."""


class Asked(NamedTuple):
    """An open question in a list."""

    run: str
    """The run that asks."""
    place: str
    """Where that belongs in its family; empty for a run that no other one has begun."""
    question: Waiting
    since: float
    """Unix time of the last event of the run that asks."""


class ShownRuns:
    """Reads runs; the state of each is kept until something else is written to it."""

    def __init__(self, stored: StoredRuns, most_states: int = KEPT_STATES) -> None:
        """At most so many states are kept: those of the runs that were asked for last."""
        self.stored = stored
        self._most_states = most_states
        self._asked: dict[str, tuple[tuple[float, int] | None, list[Asked]]] = {}
        """What runs that go on ask, as it was when they were written last."""
        self._listed: OrderedDict[str, tuple[tuple[float, int, bool], RunSummary]] = OrderedDict()
        """Summaries of runs whose own records say everything, as they were written last."""
        self._states: OrderedDict[str, tuple[tuple[float, int], RunState]] = OrderedDict()

    async def row(self, run: str) -> RunRow:
        """Raises UnknownRun and RunDamaged."""
        rows = await self.stored.journal.runs(run=run)
        if not rows:
            raise UnknownRun(run)
        if rows[0].damage is not None:
            raise rows[0].damage
        return rows[0]

    async def state(self, row: RunRow) -> RunState:
        """The state of a run, which is not to be changed; raises RunUnreadable."""
        known = self._states.get(row.run)
        written = row.updated_at, row.seq
        if known is None or known[0] != written:
            state = state_after(row.run, await self.stored.events(row.run))
            known = self._states[row.run] = written, state
        self._states.move_to_end(row.run)
        while len(self._states) > self._most_states:
            self._states.popitem(last=False)
        return known[1]

    async def summaries(
        self, machine: str | None, status: str | None, before: str | None, limit: int
    ) -> tuple[list[RunSummary], str | None]:
        """Root runs, newest first, and the run before which to continue, if there may be more."""
        found: list[RunSummary] = []
        looked_at = 0
        skipping = () if status is None or status in ENDS else ENDS
        while looked_at < LOOKED_AT:
            rows = await self.stored.journal.runs(machine, limit, before=before, skipping=skipping)
            for row in rows:
                before, looked_at = row.run, looked_at + 1
                summary = await self.summary(row)
                if status in (None, summary.status):
                    found.append(summary)
                if len(found) == limit:
                    return found, before
            if len(rows) < limit:
                return found, None
        return found, before

    async def summary(self, row: RunRow) -> RunSummary:
        """A run in a list, what is wrong with it included."""
        written = row.updated_at, row.seq, row.is_driven
        known = self._listed.get(row.run)
        if known is not None and known[0] == written:
            self._listed.move_to_end(row.run)
            return known[1]
        try:
            if row.damage is not None:
                raise row.damage
            state = await self.state(row)
            summary = summary_of(row, state, await self.stored.usage_of(state))
        except RunUnreadable as fault:
            return unreadable_summary(row, fault.cause, is_damaged=isinstance(fault, RunDamaged))
        if state.is_over or not unfinished(state):
            self._listed[row.run] = written, summary
            if len(self._listed) > KEPT_SUMMARIES:
                self._listed.popitem(last=False)
        return summary

    async def data(self, run: str) -> RunData:
        """Everything about a run but its events; raises JournalError."""
        row = await self.row(run)
        state = await self.state(row)
        children = [child async for child in self._children(state)]
        asked = await self.stored.questions_of(state)
        return run_data(await self.summary(row), state, asked, children)

    async def waiting(self) -> list[Asked]:
        """What runs and their children ask now, newest run first."""
        asked: list[Asked] = []
        before, self._asked = self._asked, {}
        for row in await self.stored.journal.runs(limit=LOOKED_AT, skipping=ENDS):
            # What is damaged, or was removed meanwhile, waits for nobody.
            with suppress(UnknownRun, RunUnreadable):
                known = before.get(row.run)
                if known is None or known[0] != (row.updated_at, row.seq):
                    known = await self._asked_by(row)
                self._asked[row.run] = known
                asked += known[1]
        return asked

    async def _asked_by(self, row: RunRow) -> tuple[tuple[float, int] | None, list[Asked]]:
        """What a run or its children ask, also while others of them work.

        And when the run was written last, where only its own records can change that.
        """
        if row.damage is not None:
            raise row.damage
        state = await self.state(row)
        asked: list[Asked] = []
        for one in await self.stored.questions_of(state):
            asker = await self.row(one.state.run)
            asked.append(Asked(asker.run, one.place, one.question, asker.updated_at))
        return None if unfinished(state) else (row.updated_at, row.seq), asked

    async def _children(self, state: RunState) -> AsyncIterator[tuple[str, RunSummary]]:
        begun: Mapping[str, Mapping[str, object]] = state.children
        for name in begun:
            for child in state.children[name].values():
                for row in await self.stored.journal.runs(run=child.started.child):
                    yield child.started.key, await self.summary(row)
