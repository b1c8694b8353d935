"""opentelemetry-sdk and its exporter over HTTP, set up as the standard variables say."""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Mapping

from loopkit import DISTRIBUTION, __version__

try:
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
    from opentelemetry.sdk.resources import OTELResourceDetector, Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
except ImportError as error:
    raise ImportError(
        "traces and metrics need libraries that are not installed: "
        f"pip install '{DISTRIBUTION}[otel]'"
    ) from error

from loopkit.observability.logs import LOGGER
from loopkit.observability.otel import note
from loopkit.text import one_line

TIMEOUT_S = 1.0
"""How long a collector may take for one request, and how long the end of a command waits."""
DELAY_MS = 1000.0
CAUSE_WIDTH = 300


class OwnProviders:
    def __init__(self, environment: Mapping[str, str], *, traces: bool, metrics: bool) -> None:
        """Raises whatever the libraries raise for a variable that they do not understand."""
        self._timeout_s = float(environment.get("OTEL_EXPORTER_OTLP_TIMEOUT") or TIMEOUT_S)
        own = {
            "service.name": "loopkit",
            "service.version": __version__,
            "service.instance.id": str(uuid.uuid4()),
        }
        # The variables take precedence.
        resource = Resource.create(own).merge(OTELResourceDetector().detect())
        self.tracers = self._tracers(resource, environment) if traces else None
        self.meters = self._meters(resource) if metrics else None
        self._faults = _Faults()

    def _tracers(self, resource: Resource, environment: Mapping[str, str]) -> TracerProvider:
        delay_ms = None if "OTEL_BSP_SCHEDULE_DELAY" in environment else DELAY_MS
        provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        exporter = OTLPSpanExporter(timeout=self._timeout_s)
        processor = BatchSpanProcessor(exporter, schedule_delay_millis=delay_ms)
        provider.add_span_processor(processor)
        return provider

    def _meters(self, resource: Resource) -> MeterProvider:
        exporter = OTLPMetricExporter(timeout=self._timeout_s)
        reader = PeriodicExportingMetricReader(exporter)
        return MeterProvider([reader], resource=resource, shutdown_on_exit=False)

    def end(self) -> None:
        """Send what is left, for as long as a request may take, and report what was not sent."""
        ended = [one.shutdown for one in (self.tracers, self.meters) if one]
        work = [threading.Thread(target=shutdown, daemon=True) for shutdown in ended]
        for thread in work:
            thread.start()
        until = time.monotonic() + self._timeout_s
        for thread in work:
            # The libraries wait for longer; their threads end with the process.
            thread.join(max(0.0, until - time.monotonic()))
        self._faults.end(is_late=any(thread.is_alive() for thread in work))


class _Faults(logging.Handler):
    """The errors that the libraries log: the first is reported, the others are dropped."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._first = ""
        self._logger = logging.getLogger("opentelemetry")
        self._logger.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        if not self._first:
            self._first = one_line(record.getMessage(), CAUSE_WIDTH)
            message = "traces or metrics were not sent: %s"
            LOGGER.getChild("telemetry").warning(message, self._first)

    def end(self, *, is_late: bool) -> None:
        """Report the first error, and ignore what threads log that still run."""
        self._logger.removeHandler(self)
        self._logger.addHandler(logging.NullHandler())
        if self._first or is_late:
            cause = self._first or "the collector took too long"
            note(f"traces or metrics were not sent completely: {cause}")
