"""The observer that makes traces of runs. A failure here does not stop the run.

The spans of a run are folded from its events: each is created by the event that ends it. They hold
no text of a prompt or a reply.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial, reduce

from loopkit.drive.active import ActiveRun, History, Listener
from loopkit.drive.stored_runs import Stored
from loopkit.engine.events import (
    Alerted,
    Cancelled,
    Decided,
    Emitted,
    Entered,
    Failed,
    Finished,
    InDoubt,
    Intended,
    Repaired,
    Replied,
    Resumed,
    Started,
    Suspended,
    Waiting,
    Worked,
)
from loopkit.engine.findings import Answer
from loopkit.engine.records import Usage
from loopkit.engine.telemetry import usd_without_held
from loopkit.observability.logs import LOGGER
from loopkit.observability.otel import conventions as names
from loopkit.observability.otel.library import (
    RUN_SPAN,
    Attributes,
    Emitter,
    Link,
    Span,
    SpanEvent,
    Trace,
    current_link,
    ours,
)
from loopkit.text.run_ids import ancestors_of, is_child, root_of
from loopkit.views.steps import Call, Steps

_LOGGER = LOGGER.getChild("telemetry")


MOST_FAMILIES = 1000


class TelemetryObserver:
    def __init__(self, emitter: Emitter, end: Callable[[], None] | None = None) -> None:
        """`end` sends what has not been sent, if the application does not do so itself."""
        self._emitter = emitter
        self._end = end
        self._born: dict[str, float] = {}
        """When the roots of the latest families began."""

    async def listener(self, active: ActiveRun, history: History) -> Listener:
        run = active.claim.run
        spans = RunSpans(run)
        for stored in await history(run):
            # The process that drove the run then has sent these spans.
            spans.after(stored)
        root = root_of(run)
        if is_child(run) and root not in self._born:
            begun = (one.at for one in await history(root) if isinstance(one.event, Started))
            self._born[root] = next(begun, 0.0)
            if len(self._born) > MOST_FAMILIES:
                del self._born[next(iter(self._born))]
        return partial(self._take, run, spans, self._born.get(root), current_link())

    def _take(
        self, run: str, spans: RunSpans, born: float | None, link: Link | None, stored: Stored
    ) -> None:
        try:
            ended = spans.after(stored)
            trace = Trace(root_of(run), born if is_child(run) and born else spans.born)
            for span in ended:
                within = (run, span.within) if span.within else None
                if within is None and is_child(run):
                    within = (next(ancestors_of(run)), RUN_SPAN)
                self._emitter.emit(span, run, trace, within, link)
        except Exception as error:  # noqa: BLE001 - no run may fail because of who looks on
            _LOGGER.warning("%s: no telemetry of %s: %r", run, stored.event.type, error)

    async def close(self) -> None:
        if self._end is not None:
            self._end()


def finish_reason(reply: Replied) -> str:
    """Why an answer ended, in the words of the conventions."""
    if reply.cut_off:
        return "length"
    return "tool_call" if reply.tool_calls else "stop"


MOST_EVENTS = 128
"""How many events the span of a run has, the last ones; OpenTelemetry keeps no more either."""


class RunSpans:
    def __init__(self, run: str) -> None:
        self._run = run
        self._steps = Steps(is_kept=False)
        self._since = 0, 0.0
        """The number and the time of the event that began or resumed the present state's work."""
        self._ended = 0
        """The number of the event that ended or suspended the last work."""
        self._happened: deque[SpanEvent] = deque(maxlen=MOST_EVENTS)

    @property
    def born(self) -> float:
        """Unix time of its first event; 0 before that."""
        return self._steps.born

    @property
    def machine(self) -> str:
        return self._steps.machine

    def after(self, stored: Stored) -> list[Span]:
        if (happened := happening(stored)) is not None:
            self._happened.append(happened)
        self._steps.take(stored)
        event = stored.event
        if isinstance(event, Entered | Resumed):
            # Work after a resume has spans of its own.
            self._since = (stored.seq, stored.at)
        return list(self._end(stored))

    def _end(self, stored: Stored) -> Iterator[Span]:
        match stored.event:
            case Replied() | Failed() | InDoubt() as event:
                if (call := self._steps.step.call(event.key)) is not None:
                    yield from self._end_call(call, stored.at)
            case Worked() as event:
                yield from self._end_work(stored.at, event)
            case Suspended():
                yield from self._end_work(stored.at, None)
            case Finished() as event:
                yield from self._end_run(stored.at, event.outcome, event.success)
            case Cancelled() as event:
                yield from self._end_run(stored.at, event.type, False)

    def _end_call(self, call: Call, at: float) -> Iterator[Span]:
        intent = call.intent
        if intent.role != "outside":
            work = self._works().get(intent.task.partition(":tool:")[0], [])
            yield self._with_place(call_span(call, work, at), intent.state, intent.visit)

    def _works(self) -> dict[str, list[Call]]:
        """The calls of each agent that is at work in the present state, by task."""
        works: dict[str, list[Call]] = {}
        for call in self._steps.step.calls:
            if call.seq > self._ended and call.intent.is_of_agent:
                works.setdefault(call.intent.task, []).append(call)
        return works

    def _end_work(self, at: float, worked: Worked | None) -> Iterator[Span]:
        """The spans of a state whose work has ended, finally or until the run is resumed."""
        step, (since, start) = self._steps.step, self._since
        if not step.state:
            return
        validate = f"validate:{since}"
        works, self._ended = self._works(), step.last
        roles = [calls[0].intent.role for calls in works.values()]
        for role, calls in zip(roles, works.values(), strict=True):
            span = work_span(calls, validate if role == "judge" else RUN_SPAN, at)
            if role != "judge":
                span.attributes.update(ours(attempt=step.attempt))
                if step.revision:
                    span.attributes.update(ours(revision=step.revision.revision))
            yield self._with_place(span, step.state, step.visit)
        if (worked is not None and worked.report is not None) or "judge" in roles:
            span = validate_span(step.state, worked, validate, start, at)
            yield self._with_place(span, step.state, step.visit)

    def _end_run(self, at: float, outcome: str, success: bool) -> Iterator[Span]:
        for call in self._steps.step.calls:
            if call.status == "open":
                yield from self._end_call(call, at)
        yield from self._end_work(at, None)
        usage = self._steps.usage
        yield Span(
            name=f"{names.INVOKE_WORKFLOW} {self.machine}",
            own=RUN_SPAN,
            within="",
            start=self.born,
            end=at,
            attributes={
                names.OPERATION: names.INVOKE_WORKFLOW,
                names.WORKFLOW: self.machine,
                names.AGENT: self.machine,
                names.CONVERSATION: self._run,
                **ours(run=self._run, machine=self.machine),
                **ours(calls=usage.agent_calls, tool_calls=usage.tool_calls),
                **ours(tokens=usage.tokens - usage.held_tokens),
                **cost_attributes(usage),
                **ours(outcome=outcome, success=success),
            },
            error="" if success else outcome,
            events=tuple(self._happened),
        )

    def _with_place(self, span: Span, state: str, visit: int) -> Span:
        place = ours(run=self._run, machine=self.machine, state=state, visit=visit)
        if names.OPERATION in span.attributes:
            place[names.CONVERSATION] = self._run
        return span.replace(attributes={**span.attributes, **place})


NO_REPLY = "cancelled"
"""The error of a call that had no reply when its run ended."""


def error_of(call: Call) -> str:
    if call.failure is not None:
        return call.failure.error_class
    return {"answered": "", "in doubt": InDoubt.type}.get(call.status, NO_REPLY)


def cost_attributes(usage: Usage) -> Attributes:
    usd = usd_without_held(usage)
    return {} if usd is None else ours(cost_usd=usd)


def own_name(work: Sequence[Call]) -> str:
    """The name of the span of an agent's work, which its calls make up."""
    return f"agent:{work[0].seq}"


def call_span(call: Call, work: Sequence[Call], at: float) -> Span:
    """The span of a call that has ended, in the work of an agent; the caller sets its place."""
    intent, reply = call.intent, call.reply
    attributes = _request_attributes(intent, work)
    if reply is not None:
        attributes |= _reply_attributes(intent, reply)
    if (reply or call.failure) and intent.role != "tool":
        attributes |= cost_attributes(call.usage)
    return Span(
        name=_name(intent),
        own=f"call:{call.seq}",
        within=own_name(work) if work else RUN_SPAN,
        start=call.began,
        end=at,
        attributes=attributes,
        error=error_of(call),
        is_call=bool(intent.model),
    )


def work_span(work: Sequence[Call], within: str, at: float) -> Span:
    """The span of an agent's work that has ended; the caller sets its place."""
    first, last = work[0], work[-1]
    intent = first.intent
    usage = reduce(Usage.plus, (call.usage for call in work))
    counted = [call.reply.counted for call in work if call.reply and call.reply.counted]
    tokens: Attributes = {
        names.INPUT_TOKENS: sum(one.input for one in counted),
        names.OUTPUT_TOKENS: sum(one.output for one in counted),
    }
    return Span(
        name=f"{names.INVOKE_AGENT} {intent.agent}",
        own=own_name(work),
        within=within,
        start=first.began,
        end=last.ended or at,
        attributes={
            names.OPERATION: names.INVOKE_AGENT,
            names.AGENT: intent.agent,
            **ours(role=intent.role, place=intent.asked_at, calls=usage.agent_calls),
            **_model(intent),
            **(tokens if tokens[names.INPUT_TOKENS] else {}),
            **cost_attributes(usage),
        },
        error=error_of(last),
    )


def _name(intended: Intended) -> str:
    if intended.role == "tool":
        return f"{names.EXECUTE_TOOL} {intended.agent.partition('.')[2]}"
    if intended.model:
        return f"{names.CHAT} {names.model_name(intended.model)}"
    return f"run {intended.agent}"


def _model(intended: Intended) -> Attributes:
    if not intended.model:
        return {}
    provider = names.provider_of(intended.model)
    known: Attributes = {names.PROVIDER: provider} if provider else {}
    return {names.REQUEST_MODEL: names.model_name(intended.model), **known}


def _request_attributes(intended: Intended, work: Sequence[Call]) -> Attributes:
    if intended.role == "tool":
        agent, _, tool = intended.agent.partition(".")
        asked = [one for call in work if call.reply for one in call.reply.tool_calls]
        number = intended.task.rpartition(":")[2]
        is_known = number.isdecimal() and 0 < int(number) <= len(asked)
        named: Attributes = {names.TOOL_CALL: asked[int(number) - 1].id} if is_known else {}
        called = {names.TOOL: tool, names.TOOL_TYPE: "function", names.AGENT: agent}
        return {names.OPERATION: names.EXECUTE_TOOL, **called, **named}
    attributes = ours(role=intended.role)
    if intended.asks_agent:
        attributes[names.AGENT] = intended.agent
    if not intended.model:
        return attributes
    attributes |= {names.OPERATION: names.CHAT, **_model(intended)}
    if intended.cap is not None:
        attributes[names.REQUEST_MAX_TOKENS] = intended.cap
    if intended.fallback:
        attributes.update(ours(fallback=intended.fallback))
    return attributes


def _reply_attributes(intended: Intended, reply: Replied) -> Attributes:
    if not intended.asks_agent:
        return {} if reply.exit_code is None else ours(exit_code=reply.exit_code)
    attributes = ours(played=True) if reply.played else {}
    if intended.model:
        attributes[names.FINISH_REASONS] = [finish_reason(reply)]
    if reply.model:
        attributes[names.RESPONSE_MODEL] = names.model_name(reply.model)
    if (counted := reply.counted) is not None:
        attributes |= {names.INPUT_TOKENS: counted.input, names.OUTPUT_TOKENS: counted.output}
        if counted.cached:
            attributes[names.CACHE_READ] = counted.cached
        if counted.written:
            attributes[names.CACHE_CREATION] = counted.written
    return attributes


def happening(stored: Stored) -> SpanEvent | None:
    attributes: Attributes = {}
    match event := stored.event:
        case Decided():
            attributes = ours(state=event.source, edge=event.edge, target=event.target)
            attributes |= ours(revises=bool(event.spends))
        case Waiting():
            attributes = ours(state=event.state, question=event.question)
        case Worked(answer=answer) if answer is not None:
            attributes = ours(state=event.state, choice=answer.choice)
        case Suspended():
            attributes = ours(state=event.state, reason=event.reason)
        case Emitted():
            attributes = ours(state=event.state, emitted=event.name)
            attributes |= ours(artifact=event.artifact) if event.artifact else {}
            attributes |= ours(artifact_version=event.artifact_version, attempt=event.attempt)
            attributes |= ours(findings=len(event.findings))
        case Alerted():
            attributes = ours(figure=event.figure, value=event.value)
        case Resumed() | Repaired():
            pass
        case _:
            return None
    name = "answered" if isinstance(event, Worked) else event.type
    return SpanEvent(f"loopkit.{name}", stored.at, attributes)


def validate_span(state: str, worked: Worked | None, own: str, start: float, end: float) -> Span:
    """The span of a validate state; without a report if the run was suspended in it."""
    report = worked.report if worked is not None else None
    failed = "" if worked is None or worked.outcome == "done" else worked.outcome
    attributes: Attributes = {}
    if report is not None:
        attributes = ours(artifact=report.artifact, artifact_version=report.version)
        attributes |= ours(verdict=report.verdict, findings=len(report.findings))
        attributes |= ours(blocking=len(report.blocking))
    return Span(
        name=f"validate {state}",
        own=own,
        within=RUN_SPAN,
        start=start,
        end=end,
        attributes=attributes,
        error=failed,
        events=tuple([_evaluation(answer, end) for answer in report.answers]) if report else (),
    )


def _evaluation(answer: Answer, at: float) -> SpanEvent:
    attributes: Attributes = {
        names.EVALUATION_NAME: answer.validator,
        names.EVALUATION_LABEL: answer.verdict,
        **ours(findings=len(answer.findings)),
    }
    if answer.score is not None:
        attributes[names.EVALUATION_SCORE] = answer.score
    if answer.error_class is not None:
        attributes[names.ERROR] = answer.error_class
    return SpanEvent(names.EVALUATION, at, attributes)
