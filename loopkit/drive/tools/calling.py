"""The calls that a model asks for: each is made once, and answered even if it fails."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from loopkit.agents.port import AgentError, Reply, Request
from loopkit.drive.active import Stopped
from loopkit.drive.calls import CallSeries, call
from loopkit.drive.tools import of_server, program, python_function, validating
from loopkit.drive.tools.call import BadArguments, ToolCalled, ToolResult, arguments_of
from loopkit.drive.tools.conversation import Conversation
from loopkit.drive.tools.offering import fetch_tools
from loopkit.engine.emitting import event_of_draft
from loopkit.engine.events import ToolCall, Usage
from loopkit.engine.tasks import Exchange, tool_task
from loopkit.language import (
    CommandTool,
    McpTool,
    PythonTool,
    Retry,
    ValidatorTool,
)
from loopkit.language.json_schema import NotJudged
from loopkit.language.template import TemplateError
from loopkit.machine.asked import ToolAsked
from loopkit.machine.callees import ONCE, Callee

RUNS: dict[str, Callable[[ToolCalled], Awaitable[ToolResult]]] = {
    ValidatorTool.kind: validating.run,
    CommandTool.kind: program.run,
    McpTool.kind: of_server.run,
    PythonTool.kind: python_function.run,
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
            commands=result.commands,
        )

    timeout_s = (tool.tool.timeout_s if tool else None) or LONGEST_S
    work = CallSeries(
        task=tool_task(talk.work.task, number),
        agent=name,
        place=talk.state,
        role="tool",
        callees=(Callee(_retry(talk, tool), timeout_s + GRACE_S),),
        quote=lambda _: Usage(tool_calls=1),
        ask=ask,
        ready=partial(_ready, talk, called.name),
    )
    request = Request(name, talk.state, "tool", called.arguments)
    await call(active, work, request, hold=True)
    emit = tool.tool.emits if tool else None
    if emit is not None and found and (findings := found[-1].findings):
        active.stage(event_of_draft(active.program, active.state, emit, findings))


def _retry(talk: Conversation, tool: ToolAsked | None) -> Retry:
    """The retries of a call: a server that fails is asked again if the call may be made twice."""
    may_come_twice = tool and isinstance(tool.tool, McpTool) and tool.tool.on_in_doubt == "retry"
    return talk.definition.retry if may_come_twice else ONCE


async def _ready(talk: Conversation, tool: str) -> None:
    """Wait until the server of a tool can be asked."""
    await fetch_tools(talk, [tool])


async def _result(
    talk: Conversation, tool: ToolAsked | None, called: ToolCall, name: str, index: int
) -> ToolResult:
    """The result of a call, or the reason why it could not be made; raises AgentError."""
    if tool is None:
        known = ", ".join(map("`{}`".format, talk.asked.tools)) or "none"
        return ToolResult(f"Error: there is no tool `{called.name}`; there are {known}")
    try:
        arguments = arguments_of(called.arguments, tool)
        return await RUNS[tool.tool.kind](
            ToolCalled(talk.active, talk.state, talk.asked, tool, name, arguments, index)
        )
    except BadArguments as error:
        return ToolResult(f"Error: {error}")
    except NotJudged as error:
        return ToolResult(f"Error: the arguments can't be used: {error}")
    except TemplateError as error:
        raise AgentError(
            "fatal", f"the arguments of `{name}` can't be filled in: {error}"
        ) from error
