"""Observability: what other systems learn of runs while these go on; no run waits for them."""

from __future__ import annotations

import os
from collections.abc import Sequence

from loopkit.drive.active import Observer
from loopkit.observability.logs import JsonLines, LogObserver, are_heard
from loopkit.observability.otel import telemetry_of_application, telemetry_of_environment


def observers() -> Sequence[Observer]:
    """Who watches the runs of a program that is loopkit's own; nobody if nothing is asked for."""
    telemetry = telemetry_of_application() or telemetry_of_environment(os.environ)
    return (*_logs(), *((telemetry,) if telemetry else ()))


def observers_within() -> Sequence[Observer]:
    """The same in somebody else's program, which decides itself where anything is sent."""
    telemetry = telemetry_of_application()
    return (*_logs(), *((telemetry,) if telemetry else ()))


def _logs() -> Sequence[Observer]:
    return (LogObserver(),) if are_heard() else ()


__all__ = ["JsonLines", "observers", "observers_within"]
