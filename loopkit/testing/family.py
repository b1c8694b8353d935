"""Families: a run with the runs of its children, read from a journal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from loopkit.drive.archive import state_after
from loopkit.drive.stored_event import Stored
from loopkit.drive.stored_runs import StoredRuns
from loopkit.engine.events import ChildStarted, Event
from loopkit.engine.state import RunState
from loopkit.text.run_ids import place_of


@dataclass(frozen=True)
class FamilyRun:
    """A run and its children."""

    state: RunState
    events: tuple[Stored, ...]
    """Everything that the journal has of it."""
    children: tuple[ChildRun, ...] = ()
    """Its children, in the order in which they began."""

    @property
    def plain_events(self) -> list[Event]:
        """The events without the times at which they were stored."""
        return [stored.event for stored in self.events]

    @property
    def cost_usd(self) -> float | None:
        """The cost of it and all its children in USD; None where unknown."""
        costs = [self.state.usage.cost_usd, *(child.run.cost_usd for child in self._unfinished)]
        return None if None in costs else sum(cost for cost in costs if cost is not None)

    @property
    def _unfinished(self) -> Iterator[ChildRun]:
        """The children whose cost is not yet part of that of the run itself."""
        for child in self.children:
            known = self.state.children[child.state][child.key]
            if known.ended is None and known.started.visit == child.visit:
                yield child


class ChildRun(NamedTuple):
    """One child of a run."""

    state: str
    key: str
    """The key of its item; empty for an only child."""
    visit: int
    run: FamilyRun

    @property
    def called(self) -> str:
        """The name of the child in messages."""
        return place_of(self.state, self.key)


async def family_of(stored: StoredRuns, run: str) -> FamilyRun:
    """A run and its children, as far as they have begun."""
    events = tuple(await stored.events(run))
    begun = [one.event for one in events if isinstance(one.event, ChildStarted)]
    children = [
        ChildRun(child.state, child.key, child.visit, await family_of(stored, child.child))
        for child in begun
        if await stored.journal.has(child.child)
    ]
    return FamilyRun(state_after(run, events), events, tuple(children))
