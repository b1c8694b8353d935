"""The spans of one run, folded from its events: each is created by the event that ends it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from loopkit.drive.stored_event import Stored
from loopkit.engine.events import (
    Cancelled,
    ChildEnded,
    Decided,
    Entered,
    Failed,
    Finished,
    InDoubt,
    Intended,
    Replied,
    Resumed,
    Started,
    Suspended,
    Usage,
    Worked,
)
from loopkit.observability.otel import conventions as names
from loopkit.observability.otel.calls import (
    OpenCall,
    OpenWork,
    call_span,
    cost_attributes,
    work_span,
)
from loopkit.observability.otel.happenings import happening
from loopkit.observability.otel.judgements import validate_span
from loopkit.observability.otel.spans import RUN_SPAN, Attributes, Span, SpanEvent
from loopkit.outside.redaction import Redact

MOST_EVENTS = 128
"""How many events the span of a run has, the last ones; OpenTelemetry keeps no more either."""


class RunSpans:
    """Folds the events of a run to the spans that end with them."""

    def __init__(self, run: str, redact: Redact | None = None) -> None:
        """With `redact` the spans have the prompts and replies, without secrets."""
        self.born = 0.0
        """When the run began; 0 before that."""
        self.machine = ""
        self._run = run
        self._redact = redact
        self._entered: Entered | None = None
        self._since = 0, 0.0
        """The number and the time of the event that began or resumed the present state's work."""
        self._revision = 0
        self._calls: dict[str, OpenCall] = {}
        self._works: dict[str, OpenWork] = {}
        """By task: the work of agents in the present state."""
        self._usage = Usage()
        self._happened: deque[SpanEvent] = deque(maxlen=MOST_EVENTS)

    def after(self, stored: Stored) -> list[Span]:
        """The spans that end with an event."""
        if (happened := happening(stored)) is not None:
            self._happened.append(happened)
        self._begin(stored)
        return list(self._end(stored))

    def _begin(self, stored: Stored) -> None:
        """Take in what begins with an event."""
        match stored.event:
            case Started() as event:
                self.machine, self.born = event.machine, stored.at
            case Entered() as event:
                self._entered, self._since = event, (stored.seq, stored.at)
            case Resumed():
                # Work after a resume has spans of its own.
                self._since = stored.seq, stored.at
            case Decided() as event:
                self._revision = event.revision.revision if event.revision else 0
            case ChildEnded() as event:
                self._usage = self._usage.plus(event.usage)
            case Intended() as event:
                self._intend(stored, event)

    def _intend(self, stored: Stored, event: Intended) -> None:
        call = self._calls[event.key] = OpenCall(event, stored.seq, stored.at)
        if event.is_of_agent:
            work = self._works.setdefault(event.task, OpenWork(event, stored.seq, stored.at))
            call.within = work.own
        elif (author := self._works.get(event.task.partition(":tool:")[0])) is not None:
            call.within, call.tool_call = author.own, author.tool_call(event.task)

    def _end(self, stored: Stored) -> Iterator[Span]:
        match stored.event:
            case Replied() | Failed() | InDoubt() as event:
                yield from self._end_call(stored, event.key, event)
            case Worked() as event:
                yield from self._end_work(stored, event)
            case Suspended():
                yield from self._end_work(stored, None)
            case Finished() as event:
                outcome: Attributes = {names.OUTCOME: event.outcome, names.SUCCESS: event.success}
                yield from self._end_run(stored, outcome, "" if event.success else event.outcome)
            case Cancelled() as event:
                cancelled: Attributes = {names.OUTCOME: event.type, names.SUCCESS: False}
                yield from self._end_run(stored, cancelled, event.type)

    def _end_call(
        self, stored: Stored, key: str, ended: Replied | Failed | InDoubt | None
    ) -> Iterator[Span]:
        call = self._calls.pop(key, None)
        if call is None:
            return
        usage = ended.usage if isinstance(ended, Replied | Failed) else Usage()
        self._usage = self._usage.plus(usage)
        if (work := self._works.get(call.intended.task)) is not None:
            work.after(stored.at, ended, usage)
        if call.intended.role != "outside":
            span = call_span(call, ended, self._redact).replace(end=stored.at)
            yield self._with_place(span, call.intended.state, call.intended.visit)

    def _end_work(self, stored: Stored, worked: Worked | None) -> Iterator[Span]:
        """The spans of a state whose work has ended, finally or until the run is resumed."""
        entered, (since, start) = self._entered, self._since
        if entered is None:
            return
        validate = f"validate:{since}"
        works, self._works = self._works, {}
        for work in works.values():
            is_judge = work.intended.role == "judge"
            span = work_span(work, validate if is_judge else RUN_SPAN)
            if not is_judge:
                span.attributes.update(self._attempt(entered))
            yield self._with_place(span, entered.state, entered.visit)
        has_report = worked is not None and worked.report is not None
        if has_report or any(work.intended.role == "judge" for work in works.values()):
            span = validate_span(entered, worked, validate, start, stored.at)
            yield self._with_place(span, entered.state, entered.visit)

    def _attempt(self, entered: Entered) -> Attributes:
        revised: Attributes = {names.REVISION: self._revision} if self._revision else {}
        return {names.ATTEMPT: entered.attempt, **revised}

    def _end_run(self, stored: Stored, outcome: Attributes, error: str) -> Iterator[Span]:
        for key in list(self._calls):
            yield from self._end_call(stored, key, None)
        yield from self._end_work(stored, None)
        yield Span(
            name=f"{names.INVOKE_WORKFLOW} {self.machine}",
            run=self._run,
            own=RUN_SPAN,
            within="",
            start=self.born,
            end=stored.at,
            attributes={
                names.OPERATION: names.INVOKE_WORKFLOW,
                names.WORKFLOW: self.machine,
                names.AGENT: self.machine,
                names.CONVERSATION: self._run,
                names.RUN: self._run,
                names.MACHINE: self.machine,
                names.CALLS: self._usage.agent_calls,
                names.TOOL_CALLS: self._usage.tool_calls,
                names.TOKENS: self._usage.tokens,
                **cost_attributes(self._usage),
                **outcome,
            },
            error=error,
            events=tuple(self._happened),
        )

    def _with_place(self, span: Span, state: str, visit: int) -> Span:
        """A span with this run, and the state and visit of its work."""
        place: Attributes = {
            names.RUN: self._run,
            names.MACHINE: self.machine,
            names.STATE: state,
            names.VISIT: visit,
        }
        if names.OPERATION in span.attributes:
            place[names.CONVERSATION] = self._run
        return span.replace(run=self._run, attributes={**span.attributes, **place})
