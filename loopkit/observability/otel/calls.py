"""Spans of calls and of the works that make them: `chat`, `execute_tool`, `invoke_agent`."""

from __future__ import annotations

from loopkit.engine.events import Failed, InDoubt, Intended, Replied, ToolCall, Usage
from loopkit.observability.otel import contents
from loopkit.observability.otel import conventions as names
from loopkit.observability.otel.spans import RUN_SPAN, Attributes, Span
from loopkit.outside.redaction import Redact
from loopkit.values import Mutable

NO_REPLY = "cancelled"
"""The error of a call that had no reply when its run ended."""


class OpenCall(Mutable):
    """A call that has not ended."""

    intended: Intended
    seq: int
    since: float
    within: str = RUN_SPAN
    """The name of its parent span."""
    tool_call: ToolCall | None = None
    """For a tool: the call as its model wrote it."""


class OpenWork(Mutable):
    """The work of an agent, which may take several calls."""

    intended: Intended
    """The first call."""
    seq: int
    since: float
    ended: float = 0.0
    """The end of the last call."""
    error: str = ""
    """The error of the last call."""
    usage: Usage = Usage()
    input: int = 0
    output: int = 0
    tool_calls: tuple[ToolCall, ...] = ()

    @property
    def own(self) -> str:
        return f"agent:{self.seq}"

    def tool_call(self, task: str) -> ToolCall | None:
        """The tool call that a task makes, as its model wrote it."""
        number = task.rpartition(":")[2]
        at = int(number) - 1 if number.isdecimal() else -1
        return self.tool_calls[at] if 0 <= at < len(self.tool_calls) else None

    def after(self, at: float, ended: Replied | Failed | InDoubt | None, usage: Usage) -> None:
        """Add a call that has ended."""
        self.ended = at
        self.usage = self.usage.plus(usage)
        self.error = error_of(ended)
        if isinstance(ended, Replied):
            self.tool_calls += ended.tool_calls
            if ended.counted is not None:
                self.input += ended.counted.input
                self.output += ended.counted.output


def error_of(ended: Replied | Failed | InDoubt | None) -> str:
    """The class of the error with which a call ended; empty without an error."""
    match ended:
        case Replied():
            return ""
        case Failed():
            return ended.error_class
        case InDoubt():
            return ended.type
    return NO_REPLY


def cost_attributes(usage: Usage) -> Attributes:
    """The attribute with the cost, if it is known."""
    return {} if usage.cost_usd is None else {names.COST: usage.cost_usd}


def call_span(
    call: OpenCall, ended: Replied | Failed | InDoubt | None, redact: Redact | None
) -> Span:
    """The span of a call that has ended; the caller sets its run and its end."""
    intended = call.intended
    attributes = _request_attributes(call)
    if redact is not None:
        attributes |= contents.request_contents(intended, redact)
    if isinstance(ended, Replied):
        attributes |= _reply_attributes(intended, ended)
        if redact is not None:
            attributes |= contents.reply_contents(intended, ended)
    if isinstance(ended, Replied | Failed) and intended.role != "tool":
        attributes |= cost_attributes(ended.usage)
    return Span(
        name=_name(intended),
        run="",
        own=f"call:{call.seq}",
        within=call.within,
        start=call.since,
        end=call.since,
        attributes=attributes,
        error=error_of(ended),
        is_call=bool(intended.model),
    )


def work_span(work: OpenWork, within: str) -> Span:
    """The span of an agent's work; the caller sets its run and place."""
    intended = work.intended
    counted: Attributes = {names.INPUT_TOKENS: work.input, names.OUTPUT_TOKENS: work.output}
    return Span(
        name=f"{names.INVOKE_AGENT} {intended.agent}",
        run="",
        own=work.own,
        within=within,
        start=work.since,
        end=work.ended,
        attributes={
            names.OPERATION: names.INVOKE_AGENT,
            names.AGENT: intended.agent,
            names.ROLE: intended.role,
            names.PLACE: intended.asked_at,
            names.CALLS: work.usage.agent_calls,
            **_model(intended),
            **(counted if work.input else {}),
            **cost_attributes(work.usage),
        },
        error=work.error,
    )


def _name(intended: Intended) -> str:
    if intended.role == "tool":
        return f"{names.EXECUTE_TOOL} {_tool(intended)}"
    if intended.model:
        return f"{names.CHAT} {names.model_name(intended.model)}"
    return f"run {intended.agent}"


def _tool(intended: Intended) -> str:
    """The name of a tool without its agent's."""
    return intended.agent.partition(".")[2]


def _model(intended: Intended) -> Attributes:
    if not intended.model:
        return {}
    provider = names.provider_of(intended.model)
    known: Attributes = {names.PROVIDER: provider} if provider else {}
    return {names.REQUEST_MODEL: names.model_name(intended.model), **known}


def _request_attributes(call: OpenCall) -> Attributes:
    intended = call.intended
    if intended.role == "tool":
        named: Attributes = {names.TOOL_CALL: call.tool_call.id} if call.tool_call else {}
        return {
            names.OPERATION: names.EXECUTE_TOOL,
            names.TOOL: _tool(intended),
            names.TOOL_TYPE: "function",
            names.AGENT: intended.agent.partition(".")[0],
            **named,
        }
    attributes: Attributes = {names.ROLE: intended.role}
    if intended.asks_agent:
        attributes[names.AGENT] = intended.agent
    if not intended.model:
        return attributes
    attributes |= {names.OPERATION: names.CHAT, **_model(intended)}
    if intended.cap is not None:
        attributes[names.REQUEST_MAX_TOKENS] = intended.cap
    if intended.fallback:
        attributes[names.FALLBACK] = intended.fallback
    return attributes


def _reply_attributes(intended: Intended, reply: Replied) -> Attributes:
    if not intended.asks_agent:
        return {} if reply.exit_code is None else {names.EXIT_CODE: reply.exit_code}
    attributes: Attributes = {names.PLAYED: True} if reply.played else {}
    if intended.model:
        attributes[names.FINISH_REASONS] = [contents.finish_reason(reply)]
    if reply.model:
        attributes[names.RESPONSE_MODEL] = names.model_name(reply.model)
    if (counted := reply.counted) is not None:
        attributes |= {names.INPUT_TOKENS: counted.input, names.OUTPUT_TOKENS: counted.output}
        if counted.cached:
            attributes[names.CACHE_READ] = counted.cached
        if counted.written:
            attributes[names.CACHE_CREATION] = counted.written
    return attributes
