"""The conversation of an agent with its tools: rounds of calls and results, until it answers.

Its position is read from the run's events alone, so that a resumed run goes on from the last reply
that is stored: no model is asked for it again, and no tool is called twice. Each call is answered
even if it fails.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

from loopkit.agents.command import as_agent_errors
from loopkit.agents.model.reply import thoughts_to_keep
from loopkit.agents.port import AgentError, Reply, Request
from loopkit.agents.port import Tool as Offered
from loopkit.drive.active import Stopped
from loopkit.drive.calls import CallSeries, call, policy_of
from loopkit.drive.replies import conversation, written_call
from loopkit.drive.tools import program
from loopkit.drive.tools.call import (
    Answered,
    BadArguments,
    Conversation,
    ToolCalled,
    ToolResult,
    arguments_of,
    timeout_result,
)
from loopkit.engine.events import Replied
from loopkit.engine.macrostep import event_of_work
from loopkit.engine.payloads import ToolCall
from loopkit.engine.records import Usage
from loopkit.engine.state import Exchange, tool_task
from loopkit.language.agents.model import ModelAgent
from loopkit.language.agents.tools import CommandTool, McpTool, PythonTool, ValidatorTool
from loopkit.language.json_schema.equality import NotJudged
from loopkit.language.section import Retry
from loopkit.language.template.errors import TemplateError
from loopkit.machine.graph import CUT_OFF, NO_ANSWER, NOT_VALIDATED
from loopkit.machine.program import DRAFT, ONCE, AgentAsked, Callee, ToolAsked
from loopkit.outside.mcp.connection import OfferedTool
from loopkit.outside.processes import CommandTimeout
from loopkit.text.json_text import text_or_json
from loopkit.text.markdown import as_code_block
from loopkit.text.written_calls import WrittenCall, call_of_channel

MOST_REFUSED = 20
"""Calls beyond the limit that are answered with a refusal; later ones are dropped."""
NEVER_ANSWERED = "it went on calling tools, and gave no answer"
REJECTED = "`{}` found errors in the last draft that it was given"


def next_message(talk: Conversation, rounds: Sequence[Exchange]) -> str | Answered:
    """The next message to the agent: why its answer does not count, or empty for tool results only.

    If the conversation is over, the answer instead.
    """
    last, is_over = rounds[-1], talk.calls_left(rounds) == 0
    reply = last.reply
    if (draft := _rejected_draft(talk, last)) is not None:
        return Answered(reply.replace(text=draft))
    if reply.has_no_tools:
        return _next_without_tools(talk, last, is_over=is_over)
    if reply.tool_calls:
        if talk.calls_left(rounds[:-1]):
            return ""
        if not reply.text.strip():
            return Answered(reply, NO_ANSWER, NEVER_ANSWERED)
    fault = _not_validated(talk, rounds)
    if not fault:
        return Answered(reply)
    asked_again = sum(not one.goes_on for one in rounds) - 1
    if is_over or asked_again >= talk.definition.reask:
        if talk.artifact_of(reply).fault:
            # An answer that is not a draft at all has a fault of its own.
            return Answered(reply)
        found = _last_verdict(talk, rounds)
        findings = found.findings if found and not found.found_clean else ()
        return Answered(reply, NOT_VALIDATED, fault, findings)
    return (
        f"Call the tool `{talk.definition.require_tool}` with your whole answer as its `{DRAFT}`, "
        f"and mend what it finds. Once it finds nothing, answer with that {DRAFT}. Reason: {fault}."
    )


def _rejected_draft(talk: Conversation, last: Exchange) -> str | None:
    """The last draft of a reply, if it is rejected by a tool whose drafts are attempts."""
    draft = None
    for number, called in enumerate(last.reply.tool_calls, last.tool_calls_before + 1):
        asked, given = talk.asked.tools.get(called.name), talk.tool_reply(number)
        counts = isinstance(tool := asked and asked.tool, ValidatorTool) and tool.attempt
        if asked is not None and counts and given is not None and given.found_clean is not None:
            written = arguments_of(called.arguments, asked)[DRAFT]
            draft = None if given.found_clean else text_or_json(written)
    return draft


def _not_validated(talk: Conversation, rounds: Sequence[Exchange]) -> str:
    """Why the answer is not the draft that the required tool found clean; empty if it is."""
    required = talk.definition.require_tool
    if required is None:
        return ""
    artifact = talk.artifact_of(rounds[-1].reply)
    if artifact.infeasible or artifact.fault_code == CUT_OFF:
        # It says itself that there is no draft, or would end at the same place again.
        return ""
    if artifact.fault:
        return f"it is no draft: {artifact.fault}"
    found = _last_verdict(talk, rounds)
    if found is None:
        return f"`{required}` was not called"
    if not found.found_clean:
        return REJECTED.format(required)
    if found.found_clean != program.digest(artifact):
        return f"this is not the draft that `{required}` found valid"
    return ""


def _last_verdict(talk: Conversation, rounds: Sequence[Exchange]) -> Replied | None:
    last = None
    for one in rounds:
        for number, called in enumerate(one.reply.tool_calls, one.tool_calls_before + 1):
            given = talk.tool_reply(number) if called.name == talk.definition.require_tool else None
            last = given if given is not None and given.found_clean is not None else last
    return last


def _next_without_tools(talk: Conversation, last: Exchange, *, is_over: bool) -> str | Answered:
    """The next message to a model without tools, for which loopkit called the required one."""
    given = talk.tool_reply(last.tool_calls_before + 1) if last.reply.tool_calls else None
    artifact = talk.artifact_of(last.reply)
    if given is None and talk.definition.require_tool and not artifact.infeasible:
        return Answered(last.reply, NOT_VALIDATED, "no call was left to validate it")
    required = talk.definition.require_tool
    if given is None or given.found_clean or artifact.infeasible or not required:
        return Answered(last.reply)
    if artifact.fault and (is_over or artifact.fault_code == CUT_OFF):
        return Answered(last.reply)
    if is_over:
        return Answered(last.reply, NOT_VALIDATED, REJECTED.format(required), given.findings)
    return (
        f"`{required}` says of this draft:\n\n{as_code_block(given.text)}\n\n"
        "Mend what it found, and answer with the whole draft."
    )


def counts_as_answer(talk: Conversation, rounds: Sequence[Exchange]) -> bool:
    """Whether the last reply of a conversation that came to its end is an answer that counts."""
    last = rounds[-1]
    if last.reply.has_no_tools:
        judged = _next_without_tools(talk, last, is_over=True)
        return isinstance(judged, Answered) and not judged.fault
    return bool(last.reply.text.strip()) and not _not_validated(talk, rounds)


def with_calls(agent: ModelAgent, request: Request, reply: Reply) -> Reply:
    """The reply with the tool calls that are kept of it, and made.

    For a model that can't call tools itself, this is only the call of the required one. A call
    that is the whole text is made, unless this fits the agent's schema.
    """
    required = agent.required_tool
    if not reply.has_no_tools:
        text = reply.text if reply.text.strip() else call_of_channel(reply.raw)
        called = None if reply.tool_calls or reply.cut_off else written_call(agent, text)
        if isinstance(called, WrittenCall):
            own = f"call_{len(request.messages)}"
            made = ToolCall(id=own, name=called.name, arguments=called.arguments, as_text=True)
            kept = thoughts_to_keep(None, request.model)
            return reply.replace(text="", tool_calls=(made,), kept=kept)
        return reply.replace(tool_calls=reply.tool_calls[: agent.max_tool_calls + MOST_REFUSED])
    if required is None:
        return reply.replace(tool_calls=())
    arguments = json.dumps({DRAFT: reply.text}, ensure_ascii=False)
    return reply.replace(tool_calls=(ToolCall(id="", name=required, arguments=arguments),))


RUNS: dict[str, Callable[[ToolCalled], Awaitable[ToolResult]]] = {
    ValidatorTool.kind: program.run_validator_tool,
    CommandTool.kind: program.run_program,
    McpTool.kind: program.run_server_tool,
    PythonTool.kind: program.run_function,
}
"""The function that runs a tool of each kind."""
LONGEST_S = 3600.0
"""The timeout in seconds of a tool that has none of its own."""
GRACE_S = 10.0
"""Seconds that a tool has, after its own timeout, to end what it has begun."""


async def call_tools(talk: Conversation, rounds: Sequence[Exchange]) -> None:
    """Make the calls of the last reply that were not made yet, up to the limit."""
    last, left = rounds[-1], talk.calls_left(rounds[:-1])
    for number, called in enumerate(last.reply.tool_calls[:left], last.tool_calls_before + 1):
        if talk.tool_reply(number) is None:
            if talk.active.stopping:
                raise Stopped
            await _call_tool(talk, number, called)


async def _call_tool(talk: Conversation, number: int, called: ToolCall) -> None:
    active, tool = talk.active, talk.asked.tools.get(called.name)
    name = f"{talk.agent}.{called.name}"
    found: list[ToolResult] = []

    async def ask(request: Request) -> Reply:
        result = await _result(talk, tool, called, name, request.task_index)
        found.append(result)
        return Reply(
            result.text,
            exit_code=result.exit_code,
            found_clean=result.found_clean,
            findings=result.findings,
            commands=result.commands,
        )

    async def ready() -> None:
        await fetch_tools(talk, [called.name])

    timeout_s = (tool.tool.timeout_s if tool else None) or LONGEST_S
    work = CallSeries(
        task=tool_task(talk.work.task, number),
        callees=(Callee(_retry(talk, tool), timeout_s + GRACE_S),),
        quote=lambda _: Usage(tool_calls=1),
        ask=ask,
        ready=ready,
    )
    request = Request(name, talk.state, "tool", called.arguments)
    await call(active, work, request, hold=True)
    emit = tool.tool.emits if tool else None
    if emit is not None and found and found[-1].found_clean == "":
        active.stage(event_of_work(active.program, active.state, emit, found[-1].findings))


def _retry(talk: Conversation, tool: ToolAsked | None) -> Retry:
    """The retries of a call: a server that fails is asked again if the call may be made twice."""
    may_come_twice = tool and isinstance(tool.tool, McpTool) and tool.tool.on_in_doubt == "retry"
    return talk.definition.retry if may_come_twice else ONCE


async def _result(
    talk: Conversation, tool: ToolAsked | None, called: ToolCall, name: str, index: int
) -> ToolResult:
    if tool is None:
        known = ", ".join(map("`{}`".format, talk.asked.tools)) or "none"
        return ToolResult(f"Error: there is no tool `{called.name}`; there are {known}")
    try:
        arguments = arguments_of(called.arguments, tool)
        made = ToolCalled(talk.active, talk.state, talk.asked, tool, name, arguments, index)
        with as_agent_errors():
            try:
                return await RUNS[tool.tool.kind](made)
            except CommandTimeout:
                # A server is asked again; of a program, the model is told.
                if isinstance(tool.tool, McpTool) or policy_of(tool.tool) != "retry":
                    raise
                return timeout_result(made)
    except BadArguments as error:
        return ToolResult(f"Error: {error}")
    except NotJudged as error:
        return ToolResult(f"Error: the arguments can't be used: {error}")
    except TemplateError as error:
        raise AgentError(
            "fatal", f"the arguments of `{name}` can't be filled in: {error}"
        ) from error


VALIDATES = "Say whether a draft of your answer is valid: {ok, diagnostics}."
IS_REQUIRED = " Your answer has to be the draft that it found valid last."


def describe_tools(asked: AgentAsked, served: Mapping[str, OfferedTool]) -> list[Offered]:
    """The tools of an agent, as they are described to a model; `served` are those of servers."""
    described: list[Offered] = []
    for name, tool in asked.tools.items():
        known = served.get(name)
        text = tool.tool.description or (known.description if known else "")
        if not text and tool.rules is not None:
            text = VALIDATES
        if name == asked.agent.required_tool:
            text += IS_REQUIRED
        described.append(Offered(name, text, known.schema if known else tool.schema))
    return described


async def fetch_tools(talk: Conversation, names: Iterable[str]) -> Mapping[str, OfferedTool]:
    """Ask servers for the descriptions of tools of these names; raises CallFailed."""
    tools = ((name, talk.asked.tools[name].tool) for name in names if name in talk.asked.tools)
    wanted = {name: tool for name, tool in tools if isinstance(tool, McpTool)}
    if not wanted or not talk.asks_servers:
        return {}
    return await program.offers(talk.active, talk.asked, wanted, talk.definition.retry)


async def converse(talk: Conversation, turns: Sequence[Exchange], request: Request) -> Answered:
    """Ask the agent, and make the calls that it asks for, until it answers.

    `turns` are those of a kept session before this one. Raises CallFailed and LimitReached.
    """
    served: Mapping[str, OfferedTool] | None = None
    prompt = request.prompt
    while True:
        rounds = talk.rounds
        if rounds:
            await call_tools(talk, rounds)
            again = next_message(talk, rounds)
            if isinstance(again, Answered):
                return again
            prompt = again
        goes_on = bool(rounds) and not prompt
        if served is None:
            served = await fetch_tools(talk, talk.asked.tools)
        tasks, may_call = talk.active.state.tasks, talk.calls_left(rounds) > 0
        asked = request.replace(
            prompt=prompt,
            messages=conversation((*turns, *rounds), None if goes_on else prompt, tasks),
            tools=describe_tools(talk.asked, served),
            may_call_tools=may_call,
            is_sent_again=request.is_sent_again or may_call,
        )
        digests = program.digests(talk.asked, served)
        work = talk.work.replace(goes_on=goes_on, digests=digests)
        await call(talk.active, work, asked, hold=True)
