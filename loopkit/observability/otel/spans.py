"""Spans as data, pieces of work that have ended, and what they add to the metrics."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Literal, TypeAlias

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


class Instrument(Value, frozen=True):
    name: str
    kind: Literal["counter", "histogram"]
    unit: str
    description: str
    boundaries: tuple[float, ...] = ()


class Measure(Value, frozen=True):
    instrument: Instrument
    value: float
    attributes: Attributes


TOKEN_USAGE = Instrument(
    "gen_ai.client.token.usage", "histogram", "{token}",
    "Number of input and output tokens used.", TOKENS,
)  # fmt: skip
OPERATION_DURATION = Instrument(
    "gen_ai.client.operation.duration", "histogram", "s", "GenAI operation duration.", SECONDS
)
AGENT_DURATION = Instrument(
    "gen_ai.invoke_agent.duration", "histogram", "s",
    "Duration of an agent's work, or of a run.", SECONDS,
)  # fmt: skip
TOOL_DURATION = Instrument(
    "gen_ai.execute_tool.duration", "histogram", "s", "Duration of a tool's call.", SECONDS
)
RUNS = Instrument("loopkit.runs", "counter", "{run}", "Runs that have ended.")
CALLS = Instrument("loopkit.calls", "counter", "{call}", "Calls of agents and programs.")
COST = Instrument("loopkit.cost", "counter", "{USD}", "What calls have cost, where it is known.")
REVISIONS = Instrument("loopkit.revisions", "counter", "{revision}", "Revisions.")
VERDICTS = Instrument("loopkit.verdicts", "counter", "{verdict}", "Verdicts of validate states.")
INSTRUMENTS = (
    TOKEN_USAGE, OPERATION_DURATION, AGENT_DURATION, TOOL_DURATION, RUNS, CALLS, COST, REVISIONS,
    VERDICTS,
)  # fmt: skip
DURATIONS = {
    names.CHAT: OPERATION_DURATION,
    names.EXECUTE_TOOL: TOOL_DURATION,
    names.INVOKE_AGENT: AGENT_DURATION,
    names.INVOKE_WORKFLOW: AGENT_DURATION,
}
OF_DURATION = (
    names.OPERATION, names.PROVIDER, names.REQUEST_MODEL, names.RESPONSE_MODEL, names.AGENT,
    names.TOOL,
)  # fmt: skip
OF_TOKENS = (names.OPERATION, names.PROVIDER, names.REQUEST_MODEL, names.RESPONSE_MODEL)
OF_CALL = (names.MACHINE, names.ROLE, names.AGENT, names.REQUEST_MODEL)


def measures_of_span(span: Span) -> Iterator[Measure]:
    operation = str(span.attributes.get(names.OPERATION, ""))
    # The duration of a call whose process died is unknown.
    if operation in DURATIONS and span.error != InDoubt.type:
        seconds = max(0.0, span.end - span.start)
        yield Measure(DURATIONS[operation], seconds, _of(span, *OF_DURATION))
    if operation == names.CHAT:
        for kind, name in (("input", names.INPUT_TOKENS), ("output", names.OUTPUT_TOKENS)):
            if isinstance(value := span.attributes.get(name), int):
                yield Measure(TOKEN_USAGE, value, _of(span, *OF_TOKENS) | {names.TOKEN_TYPE: kind})
    if span.own.startswith("call:"):
        yield Measure(CALLS, 1, _of(span, *OF_CALL))
        if isinstance(cost := span.attributes.get(names.COST), float) and cost:
            yield Measure(COST, cost, _of(span, *OF_CALL))
    if names.VERDICT in span.attributes:
        yield Measure(VERDICTS, 1, _of(span, names.MACHINE, names.STATE, names.VERDICT))
    if operation == names.INVOKE_WORKFLOW:
        yield Measure(RUNS, 1, _of(span, names.MACHINE, names.OUTCOME, names.SUCCESS))


def measures_of_event(event: Event, machine: str) -> Iterator[Measure]:
    """What an event adds to the metrics besides the spans that end with it."""
    if isinstance(event, Decided) and event.spends:
        yield Measure(REVISIONS, 1, {names.MACHINE: machine, names.STATE: event.source})


def _of(span: Span, *kept: str) -> Attributes:
    """The given attributes of a span and its error: few, to keep the number of series small."""
    attributes = {name: span.attributes[name] for name in kept if name in span.attributes}
    return attributes | ({names.ERROR: span.error} if span.error else {})
