"""Whether the reply of an agent with tools is its answer, and the next message if it is not."""

from __future__ import annotations

import json
from collections.abc import Sequence

from loopkit.agents.port import Reply
from loopkit.drive.tools import validating
from loopkit.drive.tools.conversation import Answered, Conversation
from loopkit.engine.events import Replied, ToolCall
from loopkit.engine.tasks import Exchange
from loopkit.language import ModelAgent
from loopkit.machine.asked import DRAFT
from loopkit.machine.codes import CUT_OFF, NO_ANSWER, NOT_VALIDATED
from loopkit.text.json_text import parse_output
from loopkit.text.markdown import as_code_block

MOST_REFUSED = 20
"""Calls beyond the limit that are answered with a refusal; later ones are dropped."""
NEVER_ANSWERED = "it went on calling tools, and gave no answer"


def next_message(talk: Conversation, rounds: Sequence[Exchange]) -> str | Answered:
    """The next message to the agent: why its answer does not count, or empty for tool results only.

    If the conversation is over, the answer instead.
    """
    last, is_over = rounds[-1], talk.calls_left(rounds) == 0
    reply = last.reply
    if reply.has_no_tools:
        return _next_without_tools(talk, last, is_over=is_over)
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
        # An answer that is not a draft at all has a fault of its own.
        return (
            Answered(reply)
            if talk.artifact_of(reply).fault
            else Answered(reply, NOT_VALIDATED, fault)
        )
    required = talk.definition.require_tool
    return (
        f"This can't be used: {fault}. Call `{required}` with your answer, mend what it finds, and "
        "then answer with the draft in which it found nothing."
    )


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
    given = (
        talk.tool_reply(number)
        for one in rounds
        for number, called in enumerate(one.reply.tool_calls, one.tool_calls_before + 1)
        if called.name == required
    )
    found = [one for one in given if one is not None and one.found_clean is not None]
    if not found:
        return f"`{required}` was not called"
    if not found[-1].found_clean:
        return _errors_in_draft(required, found[-1])
    if found[-1].found_clean != validating.digest(artifact):
        return f"this is not the draft that `{required}` found valid"
    return ""


def _errors_in_draft(required: str, reply: Replied) -> str:
    """The findings of the last call, for an attempt that does not know this conversation."""
    result = parse_output(reply.text)
    listed = result["diagnostics"] if isinstance(result, dict) else ()
    named = "; ".join(": ".join(filter(None, (d.get("location"), d["message"]))) for d in listed)
    found = f"`{required}` found errors in the last draft that it was given"
    return f"{found}: {named}".rstrip(".") if named else found


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
        return Answered(last.reply, NOT_VALIDATED, _errors_in_draft(required, given))
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


def with_calls(agent: ModelAgent, reply: Reply) -> Reply:
    """The reply with the tool calls that are kept of it, and made.

    For a model that can't call tools itself, this is only the call of the required one.
    """
    required = agent.required_tool
    if not reply.has_no_tools:
        return reply.replace(tool_calls=reply.tool_calls[: agent.max_tool_calls + MOST_REFUSED])
    if required is None:
        return reply.replace(tool_calls=())
    arguments = json.dumps({DRAFT: reply.text}, ensure_ascii=False)
    return reply.replace(tool_calls=(ToolCall(id="", name=required, arguments=arguments),))
