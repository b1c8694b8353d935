"""Progress of a family: a run and its children, folded from the events of all of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from loopkit.drive.stored_event import Stored
from loopkit.engine.events import ENDS, ChildEnded, ChildStarted, Suspended, Usage
from loopkit.text import plural
from loopkit.text.run_ids import ancestors_of, place_of
from loopkit.views.amounts import money
from loopkit.views.console import Line, lines
from loopkit.views.progress import WAIT_RANK, Part, Progress, status

STOPS = ("waiting", "suspended", *ENDS)
"""After one of these events a child is idle until its next event."""


class FamilyProgress:
    """The present progress of a run and its children, for a person who watches it."""

    def __init__(self) -> None:
        self._own = Progress()
        self._known: dict[str, Progress] = {}
        """The children that have not ended, by id."""
        self._places: dict[str, str] = {}
        """The place of each child in the family, by id."""
        self._ids: dict[tuple[str, str], str] = {}
        """The id of each of these children, by its parent and key."""
        self._only: dict[str, str] = {}
        """By the id of a run: its child, if the state that began it has no other."""
        self._working: dict[str, None] = {}
        """The children that are working."""
        self._usage = Usage()
        """The usage of the known children."""
        self._calls = 0
        self._asking: set[str] = set()

    def take(self, run: str, stored: Stored) -> None:
        """Take in the next event of a run of the family."""
        if run not in self._places:
            self._own = self._own.after(stored)
        else:
            self._take_of_child(run, stored)
        if isinstance(stored.event, ChildStarted):
            self._begin(run, stored.event)
        elif isinstance(stored.event, ChildEnded):
            self._end(run, stored.event)

    def begin(self, run: str, events: Iterable[Stored]) -> None:
        """Take in the earlier events of a run."""
        for stored in events:
            self.take(run, stored)
        self._working.pop(run, None)

    def lines(self, run: str, stored: Stored) -> Iterator[Line]:
        """The lines about the next event; those about a child begin with its place."""
        place = self._places.get(run)
        if place is None:
            yield from lines(self._own, stored)
        elif stored.event.type not in ENDS:
            # The parent's own event reports the end of a child, with its cost.
            for line in lines(self._known.get(run, Progress()), stored):
                yield replace(line, before=f"{place} {line.before.removeprefix('  ')}")

    def few_lines(self, run: str, stored: Stored) -> Iterator[Line]:
        """The lines about the next event; for one of several children only if a person must act."""
        if run not in self._places or self._is_only(run) or _calls_for_somebody(stored):
            yield from self.lines(run, stored)

    def status(self, now: float) -> tuple[Part, ...]:
        """The parts of the status of the family, in display order."""
        only = self._only.get(self._own.run)
        if only in self._working:
            name = f"{self._own.state}/{self._known[only].state or 'starts'}"
            return status(replace(self._total(self._known[only]), state=name), now)
        if not self._own.items:
            return status(self._own, now)
        own, total = self._own, self._total(Progress())
        parts = (
            Part(f"{own.state} {own.ended:,}/{own.items:,}", 0),
            Part(f"{len(self._working)} running" if self._working else "", WAIT_RANK),
            Part(f"{len(self._asking)} waiting" if self._asking else "", 3),
            Part(plural(total.calls, "call") if total.calls else "", 5),
            Part(", ".join(money(total.usage)), 2),
        )
        return tuple(part for part in parts if part.text)

    def _total(self, one: Progress) -> Progress:
        """The progress of one run, with the usage of the whole family."""
        calls = self._own.calls + self._calls
        return replace(one, calls=calls, usage=self._own.usage.plus(self._usage))

    def _is_only(self, run: str) -> bool:
        """Whether no other run of the family can work at the same time as a child."""
        parent = next(ancestors_of(run), "")
        return self._only.get(parent) == run and (
            parent not in self._places or self._is_only(parent)
        )

    def _begin(self, parent: str, event: ChildStarted) -> None:
        self._places[event.child] = place_of(event.state, event.key, self._places.get(parent, ""))
        self._ids[parent, event.key] = event.child
        if not event.key:
            self._only[parent] = event.child

    def _end(self, parent: str, event: ChildEnded) -> None:
        child = self._ids.pop((parent, event.key), "")
        known = self._known.pop(child, Progress())
        # The parent counts it from now on.
        self._usage, self._calls = self._usage.minus(known.usage), self._calls - known.calls
        self._places.pop(child, None)
        self._only.pop(parent, None)
        self._forget(child)

    def _forget(self, child: str) -> None:
        self._working.pop(child, None)
        self._asking.discard(child)

    def _take_of_child(self, run: str, stored: Stored) -> None:
        before = self._known.get(run, Progress())
        after = self._known[run] = before.after(stored)
        if after.usage is not before.usage:
            self._usage = self._usage.minus(before.usage).plus(after.usage)
        self._calls += after.calls - before.calls
        self._forget(run)
        if stored.event.type == "waiting":
            self._asking.add(run)
        if stored.event.type not in STOPS:
            self._working[run] = None


def _calls_for_somebody(stored: Stored) -> bool:
    event = stored.event
    if isinstance(event, Suspended):
        # The person who interrupted the family knows already.
        return not event.is_pause
    return event.type == "waiting"
