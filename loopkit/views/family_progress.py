"""Progress of a family: a run and the children that it has begun, from the events of all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from loopkit.drive.active import Stored
from loopkit.engine.events import ENDS, ChildEnded, ChildStarted, Suspended, Usage
from loopkit.text import plural
from loopkit.text.run_ids import ancestors_of, place_of
from loopkit.views.amounts import money
from loopkit.views.console import Line, lines
from loopkit.views.progress import AWAITED, Part, Progress, status

STOPS = ("waiting", "suspended", *ENDS)
"""Events behind which a child has no work, unless another one follows."""


class FamilyProgress:
    """What a person who watches a run wants to know of it and of its children now."""

    def __init__(self) -> None:
        self._own = Progress()
        self._known: dict[str, Progress] = {}
        """By their ids, the children that have not ended."""
        self._places: dict[str, str] = {}
        """By their ids, where they belong."""
        self._ids: dict[tuple[str, str], str] = {}
        """The same children by their parents and keys."""
        self._only: dict[str, str] = {}
        """The child of each run whose state has no other, by that run's id."""
        self._working: dict[str, None] = {}
        """The children that are at work."""
        self._usage = Usage()
        """What the known children have spent."""
        self._calls = 0
        self._asking: set[str] = set()

    def take(self, run: str, stored: Stored) -> None:
        """Know what has happened in a run of the family."""
        if run not in self._places:
            self._own = self._own.after(stored)
        else:
            self._take_of_child(run, stored)
        if isinstance(stored.event, ChildStarted):
            self._begin(run, stored.event)
        elif isinstance(stored.event, ChildEnded):
            self._end(run, stored.event)

    def begin(self, run: str, events: Iterable[Stored]) -> None:
        """Know what a run did before."""
        for stored in events:
            self.take(run, stored)
        self._working.pop(run, None)

    def lines(self, run: str, stored: Stored) -> Iterator[Line]:
        """What is told of an event that comes next; that of a child begins with its place."""
        place = self._places.get(run)
        if place is None:
            yield from lines(self._own, stored)
        elif stored.event.type not in ENDS:
            # Its parent tells of the end of a child, with what it has cost.
            for line in lines(self._known.get(run, Progress()), stored):
                yield replace(line, before=f"{place} {line.before.removeprefix('  ')}")

    def few_lines(self, run: str, stored: Stored) -> Iterator[Line]:
        """The same, of one among several children only where it calls for somebody."""
        if run not in self._places or self._is_only(run) or _calls_for_somebody(stored):
            yield from self.lines(run, stored)

    def status(self, now: float) -> tuple[Part, ...]:
        """The status of the family, in the order in which its parts are shown."""
        only = self._only.get(self._own.run)
        if only in self._working:
            name = f"{self._own.state}/{self._known[only].state or 'starts'}"
            return status(replace(self._total(self._known[only]), state=name), now)
        if not self._own.items:
            return status(self._own, now)
        own, total = self._own, self._total(Progress())
        parts = (
            Part(f"{own.state} {own.ended:,}/{own.items:,}", 0),
            Part(f"{len(self._working)} running" if self._working else "", AWAITED),
            Part(f"{len(self._asking)} waiting" if self._asking else "", 3),
            Part(plural(total.calls, "call") if total.calls else "", 5),
            Part(", ".join(money(total.usage)), 2),
        )
        return tuple(part for part in parts if part.text)

    def _total(self, one: Progress) -> Progress:
        """The progress of one, with what the whole family has spent."""
        calls = self._own.calls + self._calls
        return replace(one, calls=calls, usage=self._own.usage.plus(self._usage))

    def _is_only(self, run: str) -> bool:
        """Whether no run of its family can be at work together with a child."""
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
        # Whoever interrupts a family knows it.
        return not event.is_pause
    return event.type == "waiting"
