"""Spans as data: what is known of a piece of work once it is over."""

from __future__ import annotations

import hashlib
from typing import TypeAlias

from loopkit.values import Value

Attributes: TypeAlias = dict[str, str | bool | int | float | list[str]]
RUN_SPAN = "run"
"""The name that the span of a run has among those of that run."""


class SpanEvent(Value, frozen=True):
    """Something that happened at one time while a span lasted."""

    name: str
    at: float
    """Unix time."""
    attributes: Attributes


class Span(Value, frozen=True):
    """A piece of work that is over."""

    name: str
    run: str
    own: str
    """Which span of the run it is: from the journal alone, so that each process says the same."""
    within: str
    """Which span of the run it belongs to; empty for that of the run itself."""
    start: float
    """Unix time."""
    end: float
    attributes: Attributes
    error: str = ""
    """A class of errors; empty where there was none."""
    events: tuple[SpanEvent, ...] = ()
    is_call: bool = False
    """Somebody outside of this process did the work."""


class Trace(Value, frozen=True):
    """The trace of a family of runs: every process that drives it gives the same ids."""

    root: str
    """The run that nobody began."""
    born: float
    """When it began: another project may have a run of the same id."""

    @property
    def trace_id(self) -> int:
        return self._number("", "", 16)

    def span_id(self, run: str, own: str) -> int:
        return self._number(run, own, 8)

    def _number(self, run: str, own: str, length: int) -> int:
        text = "\0".join((self.root, repr(self.born), run, own))
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:length]) or 1
