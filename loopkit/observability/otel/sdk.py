"""opentelemetry-sdk and its exporter over HTTP, set up as the standard variables say."""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Mapping

from loopkit import DISTRIBUTION, __version__

try:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import OTELResourceDetector, Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
except ImportError as error:
    raise ImportError(
        f"traces need libraries that are not installed: pip install '{DISTRIBUTION}[otel]'"
    ) from error

from loopkit.observability.logs import LOGGER
from loopkit.observability.otel import note
from loopkit.text import one_line

TIMEOUT_S = 1.0
"""How long a collector may take for one request, and how long the end of a command waits."""
DELAY_MS = 1000.0
CAUSE_WIDTH = 300


class OwnProvider:
    def __init__(self, environment: Mapping[str, str]) -> None:
        """Raises whatever the libraries raise for a variable that they do not understand."""
        self._timeout_s = float(environment.get("OTEL_EXPORTER_OTLP_TIMEOUT") or TIMEOUT_S)
        own = {
            "service.name": "loopkit",
            "service.version": __version__,
            "service.instance.id": str(uuid.uuid4()),
        }
        # The variables take precedence.
        resource = Resource.create(own).merge(OTELResourceDetector().detect())
        self.tracers = TracerProvider(resource=resource, shutdown_on_exit=False)
        delay_ms = None if "OTEL_BSP_SCHEDULE_DELAY" in environment else DELAY_MS
        exporter = OTLPSpanExporter(timeout=self._timeout_s)
        processor = BatchSpanProcessor(exporter, schedule_delay_millis=delay_ms)
        self.tracers.add_span_processor(processor)
        self._faults = _Faults()

    def end(self) -> None:
        """Send what is left, for as long as a request may take, and report what was not sent."""
        # The library waits for longer; its thread ends with the process.
        work = threading.Thread(target=self.tracers.shutdown, daemon=True)
        work.start()
        work.join(self._timeout_s)
        self._faults.end(is_late=work.is_alive())


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
            message = "traces were not sent: %s"
            LOGGER.getChild("telemetry").warning(message, self._first)

    def end(self, *, is_late: bool) -> None:
        """Report the first error, and ignore what threads log that still run."""
        self._logger.removeHandler(self)
        self._logger.addHandler(logging.NullHandler())
        if self._first or is_late:
            cause = self._first or "the collector took too long"
            note(f"traces were not sent completely: {cause}")
