"""The messages of a conversation in the form of OpenAI's chat, with the calls of tools.

Calls that another provider's model made, and those that are told to a model without tools, are put
into words: the ids and the signed thoughts of one provider are refused by the next.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from loopkit.agents.model.catalogue import provider_of
from loopkit.agents.model.kept_thoughts import is_from, sent_back
from loopkit.agents.port import Message
from loopkit.engine.events import ToolCall
from loopkit.text.json_text import parse_json

NOTHING_SAID = "(no answer)"
"""For an empty reply in a kept session: providers refuse messages without text."""
NOTHING_GIVEN = "(no output)"
"""For a tool that gave nothing, likewise."""


MERGE_CALLS = frozenset({"gemini", "vertex_ai", "vertex_ai_beta"})
"""Providers whose second call LiteLLM leaves out where it says the same as the first, but not its
result: they refuse one more result than calls."""


def chat_messages(
    messages: Iterable[Message], model: str, *, has_tools: bool
) -> list[dict[str, Any]]:
    """The messages as a model takes them that is offered tools, or is not."""
    told = _readable(messages, model if has_tools else None)
    if provider_of(model) in MERGE_CALLS:
        told = _merged(told)
    return [_chat_message(message) for message in told]


def _chat_message(message: Message) -> dict[str, Any]:
    match message.role:
        case "assistant" if message.tool_calls:
            calls = [_chat_call(call) for call in message.tool_calls]
            said = message.content if message.content.strip() else None
            kept = sent_back(message.kept)
            return {"role": "assistant", "content": said, "tool_calls": calls, **kept}
        case "tool":
            given = message.content if message.content.strip() else NOTHING_GIVEN
            return {"role": "tool", "tool_call_id": message.tool_call_id, "content": given}
    is_silent = message.role == "assistant" and not message.content.strip()
    return {"role": message.role, "content": NOTHING_SAID if is_silent else message.content}


def _chat_call(call: ToolCall) -> dict[str, Any]:
    function = {"name": call.name, "arguments": _readable_arguments(call)}
    return {"id": call.id, "type": "function", "function": function}


def _readable_arguments(call: ToolCall) -> str:
    # Anthropic and Gemini take nothing but objects: LiteLLM raises on anything else.
    is_object = isinstance(parse_json(call.arguments), dict)
    return call.arguments.lstrip("\ufeff") if is_object else "{}"


def _readable(messages: Iterable[Message], model: str | None) -> Iterator[Message]:
    """The messages, with the calls in words that the model did not make; all, where it has none."""
    names: dict[str, str] = {}
    """By the ids of the calls in words: their tools."""
    given: list[str] = []
    for message in messages:
        if message.role == "tool" and message.tool_call_id in names:
            given.append(f"`{names[message.tool_call_id]}` gave:\n\n{message.content}")
        elif message.role == "user":
            yield message.replace(content="\n\n".join([*given, message.content]))
            given = []
        else:
            yield from _results(given)
            given = []
            is_own = model is not None and is_from(message.kept, model)
            names = {} if is_own else {call.id: call.name for call in message.tool_calls}
            yield _said(message) if names else message
    yield from _results(given)


def _results(given: Sequence[str]) -> Iterator[Message]:
    if given:
        yield Message("user", "\n\n".join(given))


def _said(message: Message) -> Message:
    calls = (f"I call `{call.name}` with {call.arguments}" for call in message.tool_calls)
    return Message("assistant", "\n\n".join(filter(None, [message.content.strip(), *calls])))


def _merged(messages: Iterable[Message]) -> Iterator[Message]:
    """The messages, with one call and one result for calls that say the same."""
    ids: dict[str, str] = {}
    """By the ids of the last calls: that of the first one that says the same."""
    given: dict[str, list[str]] = {}
    for message in messages:
        if message.role == "tool" and (first := ids.get(message.tool_call_id)):
            given.setdefault(first, []).append(message.content)
            continue
        yield from _tool_messages(given)
        given, first_of = {}, dict[tuple[str, str], str]()
        for call in message.tool_calls:
            said = json.dumps(json.loads(_readable_arguments(call)), sort_keys=True)
            ids[call.id] = first_of.setdefault((call.name, said), call.id)
        firsts = [call for call in message.tool_calls if ids[call.id] == call.id]
        yield message.replace(tool_calls=firsts)
    yield from _tool_messages(given)


def _tool_messages(given: Mapping[str, Sequence[str]]) -> Iterator[Message]:
    for call_id, results in given.items():
        yield Message("tool", "\n\n".join(dict.fromkeys(results)), tool_call_id=call_id)
