"""OpenTelemetry: traces of runs, by the conventions for GenAI.

Its libraries are imported only if the application has imported them, or a variable enables them.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import suppress

from loopkit.drive.active import Observer
from loopkit.text import one_line

ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
PROTOCOL = "http/protobuf"
WIDTH = 300


def telemetry_of_application() -> Observer | None:
    """The observer that sends traces to the application's own provider; None if it has none."""
    if "opentelemetry.trace" not in sys.modules:
        return None
    from loopkit.observability.otel.library import application_emitter  # noqa: PLC0415
    from loopkit.observability.otel.observer import TelemetryObserver  # noqa: PLC0415

    emitter = application_emitter()
    return TelemetryObserver(emitter) if emitter is not None else None


def telemetry_of_environment(environment: Mapping[str, str]) -> Observer | None:
    """The observer that sends traces as the standard variables say; None without them.

    A fault in the variables is printed to standard error.
    """
    if not _are_asked_for(environment):
        return None
    name = "OTEL_EXPORTER_OTLP_PROTOCOL"
    if (protocol := environment.get(name, "").strip() or PROTOCOL) != PROTOCOL:
        note(f"no traces are sent: {name} is `{protocol}`; loopkit sends {PROTOCOL} only")
        return None
    try:
        from loopkit.observability.otel.library import Emitter  # noqa: PLC0415
        from loopkit.observability.otel.observer import TelemetryObserver  # noqa: PLC0415
        from loopkit.observability.otel.sdk import OwnProvider  # noqa: PLC0415

        own = OwnProvider(environment)
    except Exception as error:  # noqa: BLE001 - whatever a variable does to a library
        note(f"no traces are sent: {error}")
        return None
    return TelemetryObserver(Emitter(own.tracers), own.end)


def _are_asked_for(environment: Mapping[str, str]) -> bool:
    is_disabled = environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    exporter = environment.get("OTEL_TRACES_EXPORTER", "otlp").strip().lower()
    is_named = any(environment.get(name, "").strip() for name in ENDPOINTS)
    return is_named and not is_disabled and exporter == "otlp"


def note(text: str) -> None:
    """Print a line to standard error, if it is open."""
    # A stream that is closed is None, with which `print` would write to standard output.
    if sys.stderr is not None:
        with suppress(OSError, ValueError):
            print(one_line(text, WIDTH), file=sys.stderr, flush=True)
