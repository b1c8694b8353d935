"""The messages of a conversation in the form of OpenAI's chat, with the calls of tools.

Calls that another provider's model made, and all calls for a model without tools, are put into
words: a provider refuses the ids and the signed thoughts of another.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from loopkit.agents.model.catalogue import provider_of
from loopkit.agents.model.kept_thoughts import fields_to_return, is_from
from loopkit.agents.port import Message
from loopkit.engine.events import ToolCall
from loopkit.text.json_text import parse_output

NOTHING_SAID = "(no answer)"
"""For an empty reply in a kept session: providers refuse messages without text."""
NOTHING_GIVEN = "(no output)"
"""For a tool without output, for the same reason."""

MERGE_CALLS = frozenset({"gemini", "vertex_ai", "vertex_ai_beta"})
"""Providers whose second call LiteLLM leaves out where it says the same as the first, but not its
result: they refuse one more result than calls."""


def chat_messages(
    messages: Iterable[Message], model: str, *, has_tools: bool
) -> list[dict[str, Any]]:
    """The messages in the form that a model takes; `has_tools`: it is offered tools."""
    taken = _with_calls_in_words(messages, model if has_tools else None)
    if provider_of(model) in MERGE_CALLS:
        taken = _with_merged_calls(taken)
    return [_chat_message(message) for message in taken]


def _chat_message(message: Message) -> dict[str, Any]:
    match message.role:
        case "assistant" if message.tool_calls:
            calls = [_chat_call(call) for call in message.tool_calls]
            content = message.content if message.content.strip() else None
            kept = fields_to_return(message.kept)
            return {"role": "assistant", "content": content, "tool_calls": calls, **kept}
        case "tool":
            content = message.content if message.content.strip() else NOTHING_GIVEN
            return {"role": "tool", "tool_call_id": message.tool_call_id, "content": content}
    is_silent = message.role == "assistant" and not message.content.strip()
    return {"role": message.role, "content": NOTHING_SAID if is_silent else message.content}


def _chat_call(call: ToolCall) -> dict[str, Any]:
    function = {"name": call.name, "arguments": _readable_arguments(call)}
    return {"id": call.id, "type": "function", "function": function}


def _readable_arguments(call: ToolCall) -> str:
    # Anthropic and Gemini take nothing but objects: LiteLLM raises on anything else.
    is_object = isinstance(parse_output(call.arguments), dict)
    return call.arguments.lstrip("\ufeff") if is_object else "{}"


def _with_calls_in_words(messages: Iterable[Message], model: str | None) -> Iterator[Message]:
    """The messages, with the calls in words that `model` did not make; None means all calls."""
    names: dict[str, str] = {}
    """The tools of the calls in words, by the ids of these calls."""
    results: list[str] = []
    for message in messages:
        if message.role == "tool" and message.tool_call_id in names:
            results.append(f"`{names[message.tool_call_id]}` gave:\n\n{message.content}")
        elif message.role == "user":
            yield message.replace(content="\n\n".join([*results, message.content]))
            results = []
        else:
            yield from _results_message(results)
            results = []
            is_own = model is not None and is_from(message.kept, model)
            names = {} if is_own else {call.id: call.name for call in message.tool_calls}
            yield _in_words(message) if names else message
    yield from _results_message(results)


def _results_message(results: Sequence[str]) -> Iterator[Message]:
    if results:
        yield Message("user", "\n\n".join(results))


def _in_words(message: Message) -> Message:
    calls = (f"I call `{call.name}` with {call.arguments}" for call in message.tool_calls)
    return Message("assistant", "\n\n".join(filter(None, [message.content.strip(), *calls])))


def _with_merged_calls(messages: Iterable[Message]) -> Iterator[Message]:
    """The messages, with one call and one result for each set of equal calls."""
    ids: dict[str, str] = {}
    """The id of the first equal call, by the ids of the last calls."""
    results_by_call: dict[str, list[str]] = {}
    for message in messages:
        if message.role == "tool" and (first := ids.get(message.tool_call_id)):
            results_by_call.setdefault(first, []).append(message.content)
            continue
        yield from _tool_messages(results_by_call)
        results_by_call, first_of = {}, dict[tuple[str, str], str]()
        for call in message.tool_calls:
            arguments = json.dumps(json.loads(_readable_arguments(call)), sort_keys=True)
            ids[call.id] = first_of.setdefault((call.name, arguments), call.id)
        firsts = [call for call in message.tool_calls if ids[call.id] == call.id]
        yield message.replace(tool_calls=firsts)
    yield from _tool_messages(results_by_call)


def _tool_messages(results_by_call: Mapping[str, Sequence[str]]) -> Iterator[Message]:
    for call_id, results in results_by_call.items():
        yield Message("tool", "\n\n".join(dict.fromkeys(results)), tool_call_id=call_id)
