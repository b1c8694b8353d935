"""opentelemetry-api, an optional library: spans and measures are given to its providers."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any, TypeAlias

try:
    from opentelemetry import metrics, trace
    from opentelemetry.context import Context
except ImportError as error:
    raise ImportError(
        "traces and metrics need libraries that are not installed: pip install 'loopkit[otel]'"
    ) from error

from loopkit import __version__
from loopkit.observability.otel.conventions import ERROR
from loopkit.observability.otel.measures import INSTRUMENTS, Measure
from loopkit.observability.otel.spans import RUN_SPAN, Span, Trace

Link: TypeAlias = trace.Link
SCOPE = "loopkit"
NS = 1_000_000_000
SAMPLED = trace.TraceFlags(trace.TraceFlags.SAMPLED)
_IDS: ContextVar[tuple[int, int]] = ContextVar("loopkit_span_ids")
"""The trace and the span that is made now."""


class DerivedIds:
    """Gives the SDK ids that every process derives alike from the journal, where it asks for any.

    It is an `IdGenerator` of the SDK, which need not be loaded where an application has not.
    """

    def generate_trace_id(self) -> int:
        return _IDS.get()[0]

    def generate_span_id(self) -> int:
        return _IDS.get()[1]

    def is_trace_id_random(self) -> bool:
        return False


MOST_TRACES = 10_000
"""Of which it is remembered whether the sampler takes them; of older ones it is asked again."""


class Emitter:
    """Gives spans and measures to the providers of this process."""

    def __init__(
        self, tracers: trace.TracerProvider | None, meters: metrics.MeterProvider | None
    ) -> None:
        self._tracer = _own_tracer(tracers) if tracers else None
        self._instruments = _instruments(meters) if meters else {}
        self._sampled: dict[int, bool] = {}

    def emit(
        self, span: Span, of: Trace, parent: tuple[str, str] | None, link: Link | None
    ) -> None:
        """Give a span to the tracer; `parent` is the run and the name of the one around it."""
        if self._tracer is None or not self._is_sampled(of, span):
            return
        context = Context() if parent is None else _within(of, *parent)
        _IDS.set((of.trace_id, of.span_id(span.run, span.own)))
        made = self._tracer.start_span(
            span.name,
            context,
            trace.SpanKind.CLIENT if span.is_call else trace.SpanKind.INTERNAL,
            {**span.attributes, **({ERROR: span.error} if span.error else {})},
            [link] if link is not None and span.own == RUN_SPAN else [],
            start_time=_ns(span.start),
        )
        for event in span.events:
            made.add_event(event.name, event.attributes, _ns(event.at))
        if span.error:
            made.set_status(trace.Status(trace.StatusCode.ERROR, span.error))
        made.end(_ns(max(span.start, span.end)))

    def _is_sampled(self, of: Trace, span: Span) -> bool:
        """Whether the sampler takes the trace: asked once, because a child may end before it."""
        if of.trace_id not in self._sampled:
            sampler = getattr(self._tracer, "sampler", None)
            asked = (Context(), of.trace_id, span.name)
            decided = sampler.should_sample(*asked).decision if sampler else None
            self._sampled[of.trace_id] = decided is None or decided.is_sampled()
            if len(self._sampled) > MOST_TRACES:
                del self._sampled[next(iter(self._sampled))]
        return self._sampled[of.trace_id]

    def record(self, measure: Measure) -> None:
        """Give a measure to its instrument."""
        instrument = self._instruments.get(measure.instrument.name)
        if instrument is None:
            return
        if measure.instrument.kind == "counter":
            instrument.add(measure.value, measure.attributes)
        else:
            instrument.record(measure.value, measure.attributes)


def _own_tracer(tracers: trace.TracerProvider) -> Any:
    tracer: Any = tracers.get_tracer(SCOPE, __version__)
    # Of our own tracer alone: those of the application keep theirs.
    tracer.id_generator = DerivedIds()
    return tracer


def _instruments(meters: metrics.MeterProvider) -> dict[str, Any]:
    meter, made = meters.get_meter(SCOPE, __version__), {}
    for one in INSTRUMENTS:
        told = one.name, one.unit, one.description
        made[one.name] = (
            meter.create_counter(*told)
            if one.kind == "counter"
            else meter.create_histogram(*told, explicit_bucket_boundaries_advisory=one.boundaries)
        )
    return made


def configured() -> Emitter | None:
    """What the application has configured for itself; none where it has not."""
    tracers, meters = trace.get_tracer_provider(), metrics.get_meter_provider()
    # Before an application configures one, there is a stand-in, and spans go nowhere.
    if isinstance(tracers, trace.ProxyTracerProvider):
        return None
    return Emitter(tracers, meters)


def current_link() -> Link | None:
    """A link to what the application is doing now; none where it has no span."""
    context = trace.get_current_span().get_span_context()
    return trace.Link(context) if context.is_valid else None


def _within(of: Trace, run: str, own: str) -> Context:
    parent = trace.SpanContext(
        of.trace_id, of.span_id(run, own), is_remote=True, trace_flags=SAMPLED
    )
    return trace.set_span_in_context(trace.NonRecordingSpan(parent), Context())


def _ns(seconds: float) -> int:
    return round(seconds * NS)
