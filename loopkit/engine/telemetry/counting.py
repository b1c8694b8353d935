"""Figures of a run that goes on, computed on demand from where they were last.

The state of a run only keeps the events that its figures need. So a run whose machine never asks
for them pays nothing, and one that asks in every round pays for each event once.
"""

from __future__ import annotations

from loopkit.engine.events import Event
from loopkit.engine.log import Log
from loopkit.engine.telemetry.figures import Figures


class Counting:
    """The figures of the first events of a log, which logs that go on from it share."""

    __slots__ = ("_count", "_figures", "_last")

    def __init__(self) -> None:
        self._figures: Figures | None = None
        self._count = 0
        self._last: Event | None = None

    def figures(self, events: Log[Event]) -> Figures:
        """The figures after these events."""
        figures = self._figures
        # A step may be discarded after it had been counted, because a template failed.
        if figures is None or (self._count and not self._begins(events)):
            figures, self._count = Figures(), 0
        for place in range(self._count, len(events)):
            figures.take(events[place])
        self._count, self._last = len(events), events[-1] if events else None
        self._figures = figures
        return figures

    def _begins(self, events: Log[Event]) -> bool:
        return self._count <= len(events) and events[self._count - 1] is self._last

    def __eq__(self, other: object) -> bool:
        # The events determine it.
        return isinstance(other, Counting)

    def __hash__(self) -> int:
        return 0
