"""An answer in the form of OpenAI's chat, without the parts that LiteLLM may fail on.

LiteLLM refuses a whole answer for a part that nobody reads: a field of the provider's own that is
missing, a role that it does not know, a text that comes in parts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from loopkit.agents.model.received import MOST_TOKENS
from loopkit.agents.model.tool_calls import JSON_CALL


def text_of_content(content: object) -> str:
    """The text of a message, which may also come in parts."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    texts = (part.get("text") for part in parts if isinstance(part, Mapping))
    return "".join(text for text in texts if isinstance(text, str))


def chat_answer(record: Mapping[str, Any], *, has_tools: bool = False) -> dict[str, Any] | None:
    """The parts of an answer that matter, in the same form; None where it can't be read.

    Calls of tools are an answer only where the model was offered tools.
    """
    choices = record.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(choice, dict) or not isinstance(message, dict):
        return None
    content = _content(message, has_tools=has_tools)
    if content is None and choice.get("finish_reason") != "length":
        return None
    defaults = {
        "role": "assistant",
        "content": None,
        **_texts(message, "reasoning_content", "reasoning"),
    }
    answer = {**defaults, **(content or {})}
    kept = {"index": 0, "message": answer, **_texts(choice, "finish_reason")}
    if isinstance(choice.get("error"), Mapping):
        kept["error"] = choice["error"]
    return {**_texts(record, "model"), "choices": [kept], "usage": _counts(record.get("usage"))}


def _content(message: Mapping[str, Any], *, has_tools: bool) -> dict[str, Any] | None:
    """The text, the refusal or the calls of tools; None where a message has none of them."""
    if has_tools and (calls := _calls(message.get("tool_calls"))):
        return {"content": text_of_content(message.get("content")) or None, "tool_calls": calls}
    match message:
        case {"refusal": str() as refusal} if refusal:
            return {"refusal": refusal}
        case {"tool_calls": [{"function": {"name": name, "arguments": str() as text}}]} if (
            name == JSON_CALL
        ):
            return {"content": text}
    content = message.get("content")
    text = text_of_content(content)
    is_empty = content == "" and not message.get("tool_calls")
    return {"content": text} if text or is_empty else None


def _calls(calls: object) -> list[dict[str, Any]]:
    """The calls of tools that have a name and arguments; the other fields may be anything."""
    readable = []
    for call in calls if isinstance(calls, list) else ():
        match call:
            case {"function": {"name": str() as name, "arguments": str() | dict() as arguments}}:
                text = arguments if isinstance(arguments, str) else json.dumps(arguments)
                function = {"name": name, "arguments": text}
                readable.append({**_texts(call, "id"), "type": "function", "function": function})
    return readable


def _texts(record: Mapping[str, Any], *names: str) -> dict[str, str]:
    return {name: text for name in names if isinstance(text := record.get(name), str)}


def _counts(usage: object) -> dict[str, Any]:
    """The plausible token counts, those of the cache included."""
    if not isinstance(usage, Mapping):
        return {}
    details = _numbers(usage.get("prompt_tokens_details"))
    return {**_numbers(usage), **({"prompt_tokens_details": details} if details else {})}


def _numbers(record: object) -> dict[str, int]:
    numbers = record.items() if isinstance(record, Mapping) else ()
    return {name: n for name, n in numbers if type(n) is int and 0 <= n <= MOST_TOKENS}
