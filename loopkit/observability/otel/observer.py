"""The observer that makes traces and metrics of runs. A failure here does not stop the run."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from weakref import WeakValueDictionary

from loopkit.drive.active import ActiveRun, History, Listener
from loopkit.drive.stored_event import Stored
from loopkit.observability.logs import LOGGER
from loopkit.observability.otel import contents
from loopkit.observability.otel.library import Emitter, Link, current_link
from loopkit.observability.otel.measures import measures_of_event, measures_of_span
from loopkit.observability.otel.run_spans import RunSpans
from loopkit.observability.otel.spans import RUN_SPAN, Span, Trace
from loopkit.text.run_ids import ancestors_of, is_child, root_of

_LOGGER = LOGGER.getChild("telemetry")


@dataclass(eq=False)
class Family:
    """A run and its children, for as long as one of them is being driven."""

    born: float = 0.0
    """The Unix time at which the root began."""


class TelemetryObserver:
    """Makes traces and metrics of all runs of an app."""

    def __init__(self, emitter: Emitter, end: Callable[[], None] | None = None) -> None:
        """`end` sends what has not been sent, if the application does not do so itself."""
        self._emitter = emitter
        self._end = end
        self._has_contents = contents.are_asked_for(os.environ)
        self._families: WeakValueDictionary[str, Family] = WeakValueDictionary()
        """By root. Only the listeners of their runs hold references to them."""

    async def listener(self, active: ActiveRun, history: History) -> Listener:
        run = active.claim.run
        spans = RunSpans(run, active.redact if self._has_contents else None)
        for stored in await history(run):
            # The process that drove the run then has sent these spans.
            spans.after(stored)
        root = root_of(run)
        family = self._families.get(root)
        if family is None:
            born = await _born(root, history) if is_child(run) else spans.born
            family = self._families.setdefault(root, Family(born))
        return partial(self._take, run, family, spans, current_link())

    def _take(
        self, run: str, family: Family, spans: RunSpans, link: Link | None, stored: Stored
    ) -> None:
        try:
            ended = spans.after(stored)
            if not is_child(run):
                family.born = spans.born
            for measure in measures_of_event(stored.event, spans.machine):
                self._emitter.record(measure)
            for span in ended:
                self._send(run, family, span, link)
        except Exception as error:  # noqa: BLE001 - no run may fail because of who looks on
            _LOGGER.warning("%s: no telemetry of %s: %r", run, stored.event.type, error)

    def _send(self, run: str, family: Family, span: Span, link: Link | None) -> None:
        root = root_of(run)
        within = (run, span.within) if span.within else None
        if within is None and is_child(run):
            within = (next(ancestors_of(run)), RUN_SPAN)
        self._emitter.emit(span, Trace(root, family.born), within, link)
        for measure in measures_of_span(span):
            self._emitter.record(measure)

    async def close(self) -> None:
        if self._end is not None:
            self._end()


async def _born(root: str, history: History) -> float:
    """When a run began, perhaps in another process."""
    spans = RunSpans(root)
    for stored in await history(root):
        spans.after(stored)
    return spans.born
