"""An event of a run with what the journal adds to it."""

from __future__ import annotations

from typing import NamedTuple

from loopkit.engine.events import Event


class Stored(NamedTuple):
    """An event as the journal keeps it."""

    seq: int
    epoch: int
    at: float
    """Unix time."""
    event: Event
