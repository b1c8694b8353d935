"""opentelemetry-api, an optional library: its providers get the spans and measures."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, TypeAlias, cast

from loopkit import DISTRIBUTION, __version__

try:
    from opentelemetry import metrics, trace
    from opentelemetry.context import Context
except ImportError as error:
    raise ImportError(
        "traces and metrics need libraries that are not installed: "
        f"pip install '{DISTRIBUTION}[otel]'"
    ) from error

from loopkit.observability.otel.conventions import ERROR
from loopkit.observability.otel.spans import INSTRUMENTS, RUN_SPAN, Measure, Span, Trace

Link: TypeAlias = trace.Link
SCOPE = "loopkit"
NS = 1_000_000_000
SAMPLED = trace.TraceFlags(trace.TraceFlags.SAMPLED)
_IDS: ContextVar[tuple[int, int]] = ContextVar("loopkit_span_ids")


class DerivedIds:
    """Gives the SDK ids that every process derives from the journal in the same way.

    It has the methods of the SDK's `IdGenerator`, but does not import the SDK, which an
    application need not have loaded.
    """

    def generate_trace_id(self) -> int:
        return _IDS.get()[0]

    def generate_span_id(self) -> int:
        return _IDS.get()[1]

    def is_trace_id_random(self) -> bool:
        return False


class Emitter:
    def __init__(
        self, tracers: trace.TracerProvider | None, meters: metrics.MeterProvider | None
    ) -> None:
        self._tracer: Any = None
        if tracers:
            self._tracer = cast("Any", tracers.get_tracer(SCOPE, __version__))
            # Only for our own tracer: those of the application keep theirs.
            self._tracer.id_generator = DerivedIds()
        self._records = _records(meters) if meters else {}

    def emit(
        self, span: Span, run: str, of: Trace, parent: tuple[str, str] | None, link: Link | None
    ) -> None:
        """`parent` is the run and name of the span around it."""
        if self._tracer is None or not self._is_sampled(of):
            return
        context = Context() if parent is None else _within(of, *parent)
        _IDS.set((of.trace_id, of.span_id(run, span.own)))
        recorded = self._tracer.start_span(
            span.name,
            context,
            trace.SpanKind.CLIENT if span.is_call else trace.SpanKind.INTERNAL,
            {**span.attributes, **({ERROR: span.error} if span.error else {})},
            [link] if link is not None and span.own == RUN_SPAN else [],
            start_time=_ns(span.start),
        )
        for event in span.events:
            recorded.add_event(event.name, event.attributes, _ns(event.at))
        if span.error:
            recorded.set_status(trace.Status(trace.StatusCode.ERROR, span.error))
        recorded.end(_ns(max(span.start, span.end)))

    def _is_sampled(self, of: Trace) -> bool:
        """Whether the sampler takes a trace, by its id: a child may end before its root."""
        sampler = getattr(self._tracer, "sampler", None)
        asked = (Context(), of.trace_id, RUN_SPAN)
        return sampler is None or bool(sampler.should_sample(*asked).decision.is_sampled())

    def record(self, measure: Measure) -> None:
        if (record := self._records.get(measure.instrument)) is not None:
            record(measure.value, measure.attributes)


def _records(meters: metrics.MeterProvider) -> dict[str, Callable[..., None]]:
    """By the name of an instrument: the function that takes a value and attributes."""
    meter, records = meters.get_meter(SCOPE, __version__), dict[str, Callable[..., None]]()
    for name, (unit, description, boundaries) in INSTRUMENTS.items():
        if boundaries:
            limits = {"explicit_bucket_boundaries_advisory": boundaries}
            records[name] = meter.create_histogram(name, unit, description, **limits).record
        else:
            records[name] = meter.create_counter(name, unit, description).add
    return records


def application_emitter() -> Emitter | None:
    tracers = trace.get_tracer_provider()
    meters = metrics.get_meter_provider()
    # Until the application configures a provider, there is a proxy that drops spans.
    if isinstance(tracers, trace.ProxyTracerProvider):
        return None
    return Emitter(tracers, meters)


def current_link() -> Link | None:
    context = trace.get_current_span().get_span_context()
    return trace.Link(context) if context.is_valid else None


def _within(of: Trace, run: str, own: str) -> Context:
    parent = trace.SpanContext(
        of.trace_id, of.span_id(run, own), is_remote=True, trace_flags=SAMPLED
    )
    return trace.set_span_in_context(trace.NonRecordingSpan(parent), Context())


def _ns(seconds: float) -> int:
    return round(seconds * NS)
