"""The calls of tools in LiteLLM's message → the calls of a reply."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from loopkit.agents.port import Tool
from loopkit.engine.events import ToolCall

JSON_CALL = "json_tool_call"
"""The tool that LiteLLM has a model call where its provider takes no JSON Schema."""


def calls_in(message: Any, offered: Sequence[Tool]) -> tuple[ToolCall, ...]:
    """The calls of a model that was offered tools, in order, each with a unique id.

    The ids are the provider's, which may hold something that it wants back.
    """
    names = {tool.name for tool in offered}
    calls: dict[str, ToolCall] = {}
    for call in _raw_calls(message) if names else ():
        if call.name == JSON_CALL and JSON_CALL not in names:
            continue
        own = call.id
        while not own or own in calls:
            own = f"{own or 'call'}_{len(calls)}"
        calls[own] = call.replace(id=own)
    return tuple(calls.values())


def _raw_calls(message: Any) -> Iterator[ToolCall]:
    calls = getattr(message, "tool_calls", None)
    for call in calls if isinstance(calls, list) else ():
        function = getattr(call, "function", None)
        name, arguments = getattr(function, "name", None), getattr(function, "arguments", None)
        if not isinstance(name, str) or not name:
            continue
        text = arguments if isinstance(arguments, str) else json.dumps(arguments or {})
        own = getattr(call, "id", None)
        # Some send an empty text where there are no arguments.
        yield ToolCall(
            id=own if isinstance(own, str) else "", name=name, arguments=text.strip() or "{}"
        )
