"""Conversations: the exchanges so far as messages for a model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from loopkit.agents.port import Message
from loopkit.engine.tasks import Exchange, Task, tool_task
from loopkit.text import or_empty

NO_MORE_CALLS = "Not called: no call is left. Give your answer now."
"""The result of a tool call beyond the last that an attempt may make."""
RECEIVED = "Received."
"""The result of the tool call with which a report is submitted."""


def conversation(
    exchanges: Sequence[Exchange], prompt: str | None, tasks: Mapping[str, Task] | None = None
) -> list[Message]:
    """The turns so far, and the new prompt, which is None if tool results are sent.

    `tasks` have the results of the tools that were called in these turns; without them the result
    of each call is that it was received.
    """
    messages: list[Message] = []
    for exchange in exchanges:
        reply = exchange.reply
        if not exchange.goes_on:
            messages.append(Message("user", or_empty(exchange.prompt)))
        if reply.tool_calls and not reply.has_no_tools:
            messages.append(
                Message("assistant", reply.text, tool_calls=reply.tool_calls, kept=reply.kept)
            )
            messages += _results(exchange, tasks)
        else:
            # Some providers refuse a conversation with an empty message.
            messages.append(Message("assistant", or_empty(reply.text), kept=reply.kept))
    if prompt is not None:
        messages.append(Message("user", or_empty(prompt)))
    return messages


def _results(exchange: Exchange, tasks: Mapping[str, Task] | None) -> Iterator[Message]:
    for number, call in enumerate(exchange.reply.tool_calls, exchange.tool_calls_before + 1):
        output = (
            RECEIVED if tasks is None else _tool_output(tasks, tool_task(exchange.task, number))
        )
        yield Message("tool", output, tool_call_id=call.id)


def _tool_output(tasks: Mapping[str, Task], name: str) -> str:
    task = tasks.get(name)
    return task.exchanges[-1].reply.text if task and task.exchanges else NO_MORE_CALLS
