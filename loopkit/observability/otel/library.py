"""Spans as data, and opentelemetry-api, an optional library whose provider gets them."""

from __future__ import annotations

import hashlib
from contextvars import ContextVar
from typing import Any, TypeAlias, cast

from loopkit import DISTRIBUTION, __version__

try:
    from opentelemetry import trace
    from opentelemetry.context import Context
except ImportError as error:
    raise ImportError(
        f"traces need libraries that are not installed: pip install '{DISTRIBUTION}[otel]'"
    ) from error

from loopkit.observability.otel.conventions import ERROR
from loopkit.values import Value

Link: TypeAlias = trace.Link
SCOPE = "loopkit"
NS = 1_000_000_000
SAMPLED = trace.TraceFlags(trace.TraceFlags.SAMPLED)
_IDS: ContextVar[tuple[int, int]] = ContextVar("loopkit_span_ids")


Attributes: TypeAlias = dict[str, str | bool | int | float | list[str]]
RUN_SPAN = "run"
"""The name of the root span among the spans of a run."""


class SpanEvent(Value, frozen=True):
    name: str
    at: float
    """Unix time."""
    attributes: Attributes


class Span(Value, frozen=True):
    """A piece of work that has ended."""

    name: str
    own: str
    """Its name in the run, derived from the journal alone, so each process uses the same."""
    within: str
    """The name of its parent span; empty for the root span of the run."""
    start: float
    """Unix time."""
    end: float
    attributes: Attributes
    error: str = ""
    """The class of its error; empty without one."""
    events: tuple[SpanEvent, ...] = ()
    is_call: bool = False
    """Whether the work was done outside of this process."""


class Trace(Value, frozen=True):
    """The trace of a family of runs; every process that drives it derives the same ids."""

    root: str
    born: float
    """When it began: another project may have a run of the same id."""

    @property
    def trace_id(self) -> int:
        return self._number("", "", 16)

    def span_id(self, run: str, own: str) -> int:
        return self._number(run, own, 8)

    def _number(self, run: str, own: str, length: int) -> int:
        text = "\0".join((self.root, repr(self.born), run, own))
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:length]) or 1


def ours(**values: str | bool | int | float) -> Attributes:
    """Attributes that no convention names."""
    return {f"loopkit.{name}": value for name, value in values.items()}


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
    def __init__(self, tracers: trace.TracerProvider) -> None:
        self._tracer = cast("Any", tracers.get_tracer(SCOPE, __version__))
        # Only for our own tracer: those of the application keep theirs.
        self._tracer.id_generator = DerivedIds()

    def emit(
        self, span: Span, run: str, of: Trace, parent: tuple[str, str] | None, link: Link | None
    ) -> None:
        """`parent` is the run and name of the span around it."""
        if not self._is_sampled(of):
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


def application_emitter() -> Emitter | None:
    tracers = trace.get_tracer_provider()
    # Until the application configures a provider, there is a proxy that drops spans.
    if isinstance(tracers, trace.ProxyTracerProvider):
        return None
    return Emitter(tracers)


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
