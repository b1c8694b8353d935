"""Observability: what other systems learn of runs while these go on; no run waits for them."""

from __future__ import annotations

from collections.abc import Sequence

from loopkit.drive.active import Observer
from loopkit.observability.logs import JsonLines, LogObserver, are_heard


def observers() -> Sequence[Observer]:
    """Who watches the runs of an app; nobody where nothing is asked for."""
    return (LogObserver(),) if are_heard() else ()


__all__ = ["JsonLines", "observers"]
