"""Observability: logs, traces and metrics of runs for other systems; no run waits for these."""

from __future__ import annotations

import os
from collections.abc import Sequence

from loopkit.drive.active import Observer
from loopkit.observability.logs import JsonLines, LogObserver, are_heard
from loopkit.observability.otel import telemetry_of_application, telemetry_of_environment


def observers() -> Sequence[Observer]:
    """The observers of runs in loopkit's own commands; empty if none are requested."""
    telemetry = telemetry_of_application() or telemetry_of_environment(os.environ)
    return (*_logs(), *((telemetry,) if telemetry else ()))


def observers_within() -> Sequence[Observer]:
    """The observers of runs in another program, which configures the destinations itself."""
    telemetry = telemetry_of_application()
    return (*_logs(), *((telemetry,) if telemetry else ()))


def _logs() -> Sequence[Observer]:
    return (LogObserver(),) if are_heard() else ()


__all__ = ["JsonLines", "observers", "observers_within"]
