"""Observability: logs and traces of runs for other systems; no run waits for these."""

from __future__ import annotations

import os
from collections.abc import Sequence

from loopkit.drive.active import Observer
from loopkit.observability.logs import JsonLines, LogObserver, are_heard
from loopkit.observability.otel import telemetry_of_application, telemetry_of_environment


def observers() -> Sequence[Observer]:
    """The observers of runs in loopkit's own commands; empty if none are requested."""
    return _heard(telemetry_of_application() or telemetry_of_environment(os.environ))


def observers_within() -> Sequence[Observer]:
    """The observers of runs in another program, which configures the destinations itself."""
    return _heard(telemetry_of_application())


def _heard(telemetry: Observer | None) -> Sequence[Observer]:
    logs = (LogObserver(),) if are_heard() else ()
    return logs if telemetry is None else (*logs, telemetry)


__all__ = ["JsonLines", "observers", "observers_within"]
