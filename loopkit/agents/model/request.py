"""From what the runner asks to the arguments of one LiteLLM call."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from loopkit.agents.model.catalogue import known_model
from loopkit.agents.port import Message, Request
from loopkit.definition import ModelAgent

NOTHING_SAID = "(no answer)"
"""For an empty reply in a kept session: providers refuse messages without text."""


def arguments(agent: ModelAgent, request: Request) -> dict[str, Any]:
    """The keyword arguments of `litellm.acompletion`, the retries and the timeout left out."""
    told: dict[str, Any] = {
        "model": request.model,
        "messages": [_message(message) for message in _messages(agent, request)],
        **agent.params,
    }
    if agent.base_url is not None:
        told["base_url"] = agent.base_url
    if agent.api_key_env is not None:
        told["api_key"] = os.environ.get(agent.api_key_env)
    if request.schema is not None and is_native(agent, request.model):
        told["response_format"] = _response_format(request.schema)
    if len(request.messages) > 2 and _is_anthropic(request.model):
        # A kept session is sent again with each revision; what was sent before costs a tenth.
        told.setdefault("cache_control_injection_points", _cache_points(request.messages))
    return told


def is_native(agent: ModelAgent, model: str) -> bool:
    """Whether a schema is asked for by the provider's own means."""
    if agent.structured is not None:
        return agent.structured == "native"
    known = known_model(model)
    return known is not None and known.native_schema


def _messages(agent: ModelAgent, request: Request) -> Sequence[Message]:
    if request.schema is None or is_native(agent, request.model):
        return request.messages
    asked = schema_in_words(request.schema)
    first, *rest = request.messages
    if first.role == "system":
        return [Message("system", f"{first.content.rstrip()}\n\n{asked}"), *rest]
    return [Message("system", asked), first, *rest]


def schema_in_words(schema: Mapping[str, Any]) -> str:
    """What a model without structured output is told instead."""
    shown = json.dumps(schema, ensure_ascii=False)
    return f"Answer with one JSON value that fits this JSON Schema, and with nothing else:\n{shown}"


def _message(message: Message) -> dict[str, str]:
    is_silent = message.role == "assistant" and not message.content.strip()
    return {"role": message.role, "content": NOTHING_SAID if is_silent else message.content}


def _response_format(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": "json_schema",
        "json_schema": {"name": "answer", "schema": schema, "strict": is_closed(schema)},
    }


def is_closed(schema: object) -> bool:
    """Whether every object in a schema has all its fields required and no others.

    Only then does OpenAI take it as strict; elsewhere the mark changes nothing.
    """
    if isinstance(schema, list):
        return all(is_closed(item) for item in schema)
    if not isinstance(schema, Mapping):
        return True
    if schema.get("type") == "object" or "properties" in schema:
        fields, required = schema.get("properties", {}), schema.get("required", [])
        if schema.get("additionalProperties") is not False or set(fields) != set(required):
            return False
    return all(is_closed(value) for value in schema.values())


def _is_anthropic(model: str) -> bool:
    known = known_model(model)
    return model.startswith("anthropic/") or (known is not None and known.provider == "anthropic")


def _cache_points(messages: Sequence[Message]) -> list[dict[str, Any]]:
    points: list[dict[str, Any]] = [{"location": "message", "index": -1}]
    if messages[0].role == "system":
        points.insert(0, {"location": "message", "role": "system"})
    return points
