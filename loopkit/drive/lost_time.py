"""Lost time: seconds in which children worked before their parent's process was killed.

Nobody was left to record them for the parent. What is known of them is in the records of the
children: each process that drove one left its first record there when it began, and its last one
before it was killed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from typing import TypeAlias

from loopkit.drive.stored_event import Stored

Span: TypeAlias = tuple[float, float]
"""When something began and ended, in Unix seconds."""


def spans_of(history: Iterable[Stored]) -> Iterator[Span]:
    """When each process that drove a run wrote its first and its last record."""
    for _, group in groupby(history, attrgetter("epoch")):
        at = [stored.at for stored in group]
        yield min(at), max(at)


def last_counted(history: Iterable[Stored]) -> float:
    """When a run last recorded time of its own; 0 if it never did."""
    counted = (s.at for s in history if getattr(s.event, "time_s", 0.0) > 0)
    return max(counted, default=0.0)


def seconds_in(spans: Sequence[Span], since: float) -> float:
    """The seconds that lie in any of these spans, from `since` on."""
    seconds, counted_to = 0.0, since
    for began, ended in sorted(spans):
        if ended > counted_to:
            seconds += ended - max(began, counted_to)
            counted_to = ended
    return seconds
