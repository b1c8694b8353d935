"""Spans as data: pieces of work that have ended."""

from __future__ import annotations

import hashlib
from typing import TypeAlias

from loopkit.values import Value

Attributes: TypeAlias = dict[str, str | bool | int | float | list[str]]
RUN_SPAN = "run"
"""The name of the root span among the spans of a run."""


class SpanEvent(Value, frozen=True):
    """Something that happened at one moment of a span."""

    name: str
    at: float
    """Unix time."""
    attributes: Attributes


class Span(Value, frozen=True):
    """A piece of work that has ended."""

    name: str
    run: str
    own: str
    """Its name in the run, derived from the journal alone, so each process uses the same."""
    within: str
    """The name of its parent span; empty for the root span of the run."""
    start: float
    """Unix time."""
    end: float
    attributes: Attributes
    error: str = ""
    """The class of its error; empty without one."""
    events: tuple[SpanEvent, ...] = ()
    is_call: bool = False
    """Whether the work was done outside of this process."""


class Trace(Value, frozen=True):
    """The trace of a family of runs; every process that drives it derives the same ids."""

    root: str
    """The id of the root run."""
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
