"""The conversation of an agent with its tools: rounds of calls and results, until it answers.

Its position is read from the run's events alone, so that a resumed run goes on from the last reply
that is stored: no model is asked for it again, and no tool is called twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from loopkit.agents.port import Request
from loopkit.drive.calls import call
from loopkit.drive.messages import conversation
from loopkit.drive.tools import of_server
from loopkit.drive.tools.answers import next_message
from loopkit.drive.tools.calling import call_tools
from loopkit.drive.tools.conversation import Answered, Conversation
from loopkit.drive.tools.offering import describe_tools, fetch_tools
from loopkit.engine.tasks import Exchange
from loopkit.outside.mcp import OfferedTool


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
        digests = of_server.digests(talk.asked, served)
        work = talk.work.replace(goes_on=goes_on, digests=digests)
        await call(talk.active, work, asked, hold=True)
