"""Spans as data, pieces of work that have ended, and what they add to the metrics."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import NamedTuple, TypeAlias

from loopkit.engine.events import Decided, Event, InDoubt
from loopkit.observability.otel import conventions as names
from loopkit.values import Value

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


SECONDS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
TOKENS = tuple(float(4**power) for power in range(14))


class Instrument(NamedTuple):
    unit: str
    description: str
    boundaries: tuple[float, ...] = ()
    """Of a histogram; a counter has none."""


INSTRUMENTS: Mapping[str, Instrument] = {
    "gen_ai.client.token.usage": Instrument(
        "{token}", "Number of input and output tokens used.", TOKENS
    ),
    "gen_ai.client.operation.duration": Instrument("s", "GenAI operation duration.", SECONDS),
    "gen_ai.invoke_agent.duration": Instrument(
        "s", "Duration of an agent's work, or of a run.", SECONDS
    ),
    "gen_ai.execute_tool.duration": Instrument("s", "Duration of a tool's call.", SECONDS),
    "loopkit.runs": Instrument("{run}", "Runs that have ended."),
    "loopkit.calls": Instrument("{call}", "Calls of agents and programs."),
    "loopkit.cost": Instrument("{USD}", "What calls have cost, where it is known."),
    "loopkit.revisions": Instrument("{revision}", "Revisions."),
    "loopkit.verdicts": Instrument("{verdict}", "Verdicts of validate states."),
}


class Measure(NamedTuple):
    instrument: str
    value: float
    attributes: Attributes


def ours(**values: str | bool | int | float) -> Attributes:
    """Attributes that no convention names."""
    return {f"loopkit.{name}": value for name, value in values.items()}


DURATIONS = {
    names.CHAT: "gen_ai.client.operation.duration",
    names.EXECUTE_TOOL: "gen_ai.execute_tool.duration",
    names.INVOKE_AGENT: "gen_ai.invoke_agent.duration",
    names.INVOKE_WORKFLOW: "gen_ai.invoke_agent.duration",
}
OF_DURATION = (
    names.OPERATION, names.PROVIDER, names.REQUEST_MODEL, names.RESPONSE_MODEL, names.AGENT,
    names.TOOL,
)  # fmt: skip
OF_TOKENS = (names.OPERATION, names.PROVIDER, names.REQUEST_MODEL, names.RESPONSE_MODEL)
OF_CALL = ("loopkit.machine", "loopkit.role", names.AGENT, names.REQUEST_MODEL)


def measures_of_span(span: Span) -> Iterator[Measure]:
    operation = str(span.attributes.get(names.OPERATION, ""))
    # The duration of a call whose process died is unknown.
    if operation in DURATIONS and span.error != InDoubt.type:
        seconds = max(0.0, span.end - span.start)
        yield Measure(DURATIONS[operation], seconds, _of(span, *OF_DURATION))
    if operation == names.CHAT:
        for kind, name in (("input", names.INPUT_TOKENS), ("output", names.OUTPUT_TOKENS)):
            if isinstance(value := span.attributes.get(name), int):
                yield Measure(
                    "gen_ai.client.token.usage",
                    value,
                    _of(span, *OF_TOKENS) | {names.TOKEN_TYPE: kind},
                )
    if span.own.startswith("call:"):
        yield Measure("loopkit.calls", 1, _of(span, *OF_CALL))
        if isinstance(cost := span.attributes.get("loopkit.cost_usd"), float) and cost:
            yield Measure("loopkit.cost", cost, _of(span, *OF_CALL))
    if "loopkit.verdict" in span.attributes:
        about = _of(span, "loopkit.machine", "loopkit.state", "loopkit.verdict")
        yield Measure("loopkit.verdicts", 1, about)
    if operation == names.INVOKE_WORKFLOW:
        about = _of(span, "loopkit.machine", "loopkit.outcome", "loopkit.success")
        yield Measure("loopkit.runs", 1, about)


def measures_of_event(event: Event, machine: str) -> Iterator[Measure]:
    """What an event adds to the metrics besides the spans that end with it."""
    if isinstance(event, Decided) and event.spends:
        yield Measure("loopkit.revisions", 1, ours(machine=machine, state=event.source))


def _of(span: Span, *kept: str) -> Attributes:
    """The given attributes of a span and its error: few, to keep the number of series small."""
    attributes = {name: span.attributes[name] for name in kept if name in span.attributes}
    return attributes | ({names.ERROR: span.error} if span.error else {})
