"""Sizes of prompts: how much a call sends, part by part."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from loopkit.agents.port import Message, Request
from loopkit.engine.events import PromptSize


def size_of(request: Request, *, goes_on: bool) -> PromptSize:
    """The size of a request in characters; `goes_on` if it has no prompt of its own."""
    prompt = 0 if goes_on else len(request.prompt)
    if not request.model:
        return PromptSize(prompt=prompt)
    system = _message_chars(m for m in request.messages if m.role == "system")
    schemas = [tool.schema for tool in request.tools]
    schemas += [request.schema] if request.schema is not None else []
    described = sum(len(tool.name) + len(tool.description) for tool in request.tools)
    return PromptSize(
        system=system,
        turns=max(0, _message_chars(request.messages) - system - prompt),
        prompt=prompt,
        schemas=described + sum(map(_schema_chars, schemas)),
    )


def _message_chars(messages: Iterable[Message]) -> int:
    return sum(
        len(message.content) + sum(len(call.arguments) for call in message.tool_calls)
        for message in messages
    )


def _schema_chars(schema: Mapping[str, Any]) -> int:
    return len(json.dumps(schema, ensure_ascii=False))
