"""The conversation of an agent with its tools: rounds of calls and results, until it answers.

Where it stands is read from the run's events alone, so that a resumed run goes on from the last
reply that is stored: no model is asked for it again, and no tool is called twice.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial

from loopkit.agents.function import FunctionAgentPort
from loopkit.agents.port import AgentError, Reply, Request
from loopkit.agents.port import Tool as Offered
from loopkit.drive.active import ActiveRun, Stopped
from loopkit.drive.calls import CallSeries, call
from loopkit.drive.conversation import conversation
from loopkit.drive.retries import ONCE
from loopkit.drive.tools import of_server, program, python_function, validating
from loopkit.drive.tools.call import BadArguments, ToolCalled, ToolResult, arguments_of
from loopkit.drive.turns import Callee
from loopkit.engine.emitting import emitted_meanwhile
from loopkit.engine.events import Artifact, Replied, ToolCall, Usage
from loopkit.engine.records import Value
from loopkit.engine.tasks import Exchange, tool_task
from loopkit.language import (
    CommandTool,
    McpTool,
    ModelAgent,
    PythonTool,
    Retry,
    ValidatorTool,
)
from loopkit.language.json_schema import NotJudged
from loopkit.language.template import TemplateError
from loopkit.machine.asked import DRAFT, AgentAsked, ToolAsked
from loopkit.machine.codes import CUT_OFF, NO_ANSWER, NOT_VALIDATED
from loopkit.outside.mcp import OfferedTool
from loopkit.text.markdown import fenced

RUNS: dict[str, Callable[[ToolCalled], Awaitable[ToolResult]]] = {
    ValidatorTool.kind: validating.run,
    CommandTool.kind: program.run,
    McpTool.kind: of_server.run,
    PythonTool.kind: python_function.run,
}
"""What a tool of each kind does."""
LONGEST_S = 3600.0
"""Seconds after which a call of a tool is given up that has no timeout of its own."""
GRACE_S = 10.0
"""Seconds that a tool has, after its own timeout, to end what it has begun."""
MOST_REFUSED = 20
"""Calls beyond those that may be made of which a model is told so; others it has not written."""
VALIDATES = "Say whether a draft of your answer is valid: {ok, diagnostics}."
IS_REQUIRED = " Your answer has to be the draft that it found valid last."
NEVER_ANSWERED = "it went on calling tools, and gave no answer"


class Answered(Value, frozen=True):
    """The end of a conversation with tools."""

    reply: Replied
    fault_code: str = ""
    fault: str = ""
    """Why the reply is no answer that counts."""


class Conversation(Value, frozen=True):
    """An agent that may call tools, at one piece of work."""

    active: ActiveRun
    state: str
    agent: str
    asked: AgentAsked
    work: CallSeries
    made: Callable[[Replied], Artifact]
    """The artifact that a reply brings."""

    @property
    def definition(self) -> ModelAgent:
        agent = self.asked.agent
        assert isinstance(agent, ModelAgent)
        return agent

    @property
    def rounds(self) -> Sequence[Exchange]:
        """What has been said in this piece of work."""
        task = self.active.state.tasks.get(self.work.task)
        return task.exchanges[task.renewed :] if task else ()

    def calls_left(self, rounds: Sequence[Exchange]) -> int:
        """How many tools may still be called after these rounds."""
        made = sum(len(one.reply.tool_calls) for one in rounds)
        return max(0, self.definition.max_tool_calls - made)

    @property
    def asks_servers(self) -> bool:
        """Whether tools of servers are real: nothing that plays is told of them, or calls them."""
        port = self.active.agents[self.agent]
        is_played = self.active.scenario is not None or isinstance(port, FunctionAgentPort)
        return not is_played and self.definition.tool_use != "runner"


def offered(asked: AgentAsked, served: Mapping[str, OfferedTool]) -> list[Offered]:
    """The tools of an agent, as a model is told of them; of some, servers have told."""
    required = asked.agent.required_tool
    return [
        Offered(
            name,
            _description(tool, served.get(name), is_required=name == required),
            served[name].schema if name in served else tool.schema,
        )
        for name, tool in asked.tools.items()
    ]


def _description(tool: ToolAsked, served: OfferedTool | None, *, is_required: bool) -> str:
    said = tool.tool.description or (served.description if served else "")
    if not said and tool.rules is not None:
        said = VALIDATES
    return said + IS_REQUIRED if is_required else said


async def converse(talk: Conversation, told: Sequence[Exchange], request: Request) -> Answered:
    """Ask the agent, and make the calls that it asks for, until it answers.

    `told` are the turns of a kept session before this one. Raises CallFailed and LimitReached.
    """
    served: Mapping[str, OfferedTool] | None = None
    prompt = request.prompt
    while True:
        rounds = talk.rounds
        if rounds:
            await _call_tools(talk, rounds)
            again = _again(talk, rounds)
            if isinstance(again, Answered):
                return again
            prompt = again
        goes_on = bool(rounds) and not prompt
        if served is None:
            served = await _served(talk, talk.asked.tools)
        tasks, may_call = talk.active.state.tasks, talk.calls_left(rounds) > 0
        asked = request.replace(
            prompt=prompt,
            messages=conversation((*told, *rounds), None if goes_on else prompt, tasks),
            tools=offered(talk.asked, served),
            may_call_tools=may_call,
            is_sent_again=request.is_sent_again or may_call,
        )
        digests = of_server.digests(talk.asked, served)
        work = talk.work.replace(goes_on=goes_on, digests=digests)
        await call(talk.active, work, asked, hold=True)


async def _served(talk: Conversation, names: Iterable[str]) -> Mapping[str, OfferedTool]:
    """What servers say of tools of these names; raises CallFailed."""
    tools = ((name, talk.asked.tools[name].tool) for name in names if name in talk.asked.tools)
    wanted = {name: tool for name, tool in tools if isinstance(tool, McpTool)}
    if not wanted or not talk.asks_servers:
        return {}
    return await of_server.offers(talk.active, talk.asked, wanted, talk.definition.retry)


def _again(talk: Conversation, rounds: Sequence[Exchange]) -> str | Answered:
    """What the agent is told next: nothing but what its tools gave, or why its answer is none.

    The end where that is its answer.
    """
    last, is_over = rounds[-1], talk.calls_left(rounds) == 0
    reply = last.reply
    if reply.has_no_tools:
        return _judged_for_it(talk, last, is_over=is_over)
    if reply.tool_calls:
        was_over = talk.calls_left(rounds[:-1]) == 0
        if not was_over:
            return ""
        if not reply.text.strip():
            return Answered(reply, NO_ANSWER, NEVER_ANSWERED)
    fault = _not_validated(talk, rounds)
    if not fault:
        return Answered(reply)
    asked_again = sum(not one.goes_on for one in rounds) - 1
    if is_over or asked_again >= talk.definition.reask:
        # What is no draft at all has a fault of its own.
        return Answered(reply) if talk.made(reply).fault else Answered(reply, NOT_VALIDATED, fault)
    required = talk.definition.require_tool
    return (
        f"This can't be used: {fault}. Call `{required}` with your answer, mend what it finds, and "
        "then answer with the draft in which it found nothing."
    )


def _not_validated(talk: Conversation, rounds: Sequence[Exchange]) -> str:
    """Why the answer is not the draft that the required tool found clean; empty where it is."""
    required = talk.definition.require_tool
    if required is None:
        return ""
    artifact = talk.made(rounds[-1].reply)
    if artifact.infeasible or artifact.fault_code == CUT_OFF:
        # It says itself that there is no draft, or would end at the same place again.
        return ""
    if artifact.fault:
        return f"it is no draft: {artifact.fault}"
    found = [
        given.found_clean
        for one in rounds
        for number, called in enumerate(one.reply.tool_calls, one.tool_calls_before + 1)
        if called.name == required and (given := _given(talk, number)) is not None
    ]
    last = next((digest for digest in reversed(found) if digest is not None), None)
    if last is None:
        return f"`{required}` was not called"
    if not last:
        return f"`{required}` found errors in the last draft that it was given"
    if last != validating.digest(artifact):
        return f"this is not the draft that `{required}` found valid"
    return ""


def _judged_for_it(talk: Conversation, last: Exchange, *, is_over: bool) -> str | Answered:
    """The same for a model that can't call tools: loopkit has called the required one for it."""
    given = _given(talk, last.tool_calls_before + 1) if last.reply.tool_calls else None
    artifact = talk.made(last.reply)
    if given is None and talk.definition.require_tool and not artifact.infeasible:
        return Answered(last.reply, NOT_VALIDATED, "no call was left to validate it")
    required = talk.definition.require_tool
    if given is None or given.found_clean or artifact.infeasible or not required:
        return Answered(last.reply)
    if artifact.fault and (is_over or artifact.fault_code == CUT_OFF):
        return Answered(last.reply)
    if is_over:
        return Answered(last.reply, NOT_VALIDATED, f"`{required}` found errors in the last draft")
    return (
        f"`{required}` says of this draft:\n\n{fenced(given.text)}\n\n"
        "Mend what it found, and answer with the whole draft."
    )


def counts(talk: Conversation, rounds: Sequence[Exchange]) -> bool:
    """Whether the last reply of a conversation that came to its end is an answer that counts."""
    last = rounds[-1]
    if last.reply.has_no_tools:
        judged = _judged_for_it(talk, last, is_over=True)
        return isinstance(judged, Answered) and not judged.fault
    return bool(last.reply.text.strip()) and not _not_validated(talk, rounds)


def with_calls(agent: ModelAgent, reply: Reply) -> Reply:
    """The reply with the calls that are kept of it, and made.

    For a model that can't call the required tool itself this is that call.
    """
    required = agent.required_tool
    if not reply.has_no_tools or required is None:
        return reply.replace(tool_calls=reply.tool_calls[: agent.max_tool_calls + MOST_REFUSED])
    arguments = json.dumps({DRAFT: reply.text}, ensure_ascii=False)
    return reply.replace(tool_calls=(ToolCall(id="", name=required, arguments=arguments),))


def _given(talk: Conversation, number: int) -> Replied | None:
    """What a call gave; none where it was not made, or not yet."""
    task = talk.active.state.tasks.get(tool_task(talk.work.task, number))
    return task.exchanges[-1].reply if task and task.exchanges else None


async def _call_tools(talk: Conversation, rounds: Sequence[Exchange]) -> None:
    """Make the calls of the last reply that were not made yet, as far as any are left."""
    last, left = rounds[-1], talk.calls_left(rounds[:-1])
    for number, called in enumerate(last.reply.tool_calls[:left], last.tool_calls_before + 1):
        if _given(talk, number) is None:
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
        active.stage(emitted_meanwhile(active.program, active.state, emit, findings))


def _retry(talk: Conversation, tool: ToolAsked | None) -> Retry:
    """A server that fails is asked again where a call may be made twice."""
    may_come_twice = tool and isinstance(tool.tool, McpTool) and tool.tool.on_in_doubt == "retry"
    return talk.definition.retry if may_come_twice else ONCE


async def _ready(talk: Conversation, tool: str) -> None:
    """Wait until the server of a tool can be asked."""
    await _served(talk, [tool])


async def _result(
    talk: Conversation, tool: ToolAsked | None, called: ToolCall, name: str, index: int
) -> ToolResult:
    """What a call gave, be it why it could not be made; raises AgentError."""
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
