"""A request of the driver → the arguments of one LiteLLM call."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from loopkit.agents.model.catalogue import known_model
from loopkit.agents.model.schema import is_closed, native_form, strict_form
from loopkit.agents.port import Message, Request
from loopkit.language import ModelAgent

MARKED = frozenset({
    "anthropic", "bedrock", "bedrock_converse", "vertex_ai", "vertex_ai_beta", "openrouter",
    "vertex_ai-anthropic_models",
})  # fmt: skip
"""Who sells Claude, by the prefix of the model, or by the table where it has none."""
NOTHING_SAID = "(no answer)"
"""For an empty reply in a kept session: providers refuse messages without text."""


def arguments(agent: ModelAgent, request: Request) -> dict[str, Any]:
    """The keyword arguments of `litellm.acompletion`, the retries and the timeout left out."""
    told: dict[str, Any] = {
        "model": request.model,
        "messages": [_message(message) for message in _messages(agent, request)],
        **agent.params,
    }
    if request.cap is not None:
        told["max_tokens"] = request.cap
    if agent.base_url is not None:
        told["base_url"] = agent.base_url
    if agent.api_key_env is not None:
        told["api_key"] = os.environ.get(agent.api_key_env)
    if (schema := native_schema(agent, request)) is not None:
        told["response_format"] = _response_format(strict_form(schema))
    if request.is_sent_again and _is_marked(request.model):
        # To put it into the cache costs a quarter more; to find it there, a tenth.
        told.setdefault("cache_control_injection_points", _cache_points(request.messages))
    return told


def native_schema(agent: ModelAgent, request: Request) -> Mapping[str, Any] | None:
    """The schema that is asked for by the provider's own means; none where words have to do."""
    form = None if request.schema is None else native_form(request.schema)
    if agent.structured is not None:
        return form or request.schema if agent.structured == "native" else None
    known = known_model(request.model)
    return form if known is not None and known.native_schema else None


def _messages(agent: ModelAgent, request: Request) -> Sequence[Message]:
    if request.schema is None or native_schema(agent, request) is not None:
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


def _is_marked(model: str) -> bool:
    """Whether it is a Claude of a provider that caches what is marked, and nothing else."""
    prefix, slash, _ = model.partition("/")
    known = known_model(model)
    provider = prefix if slash else known.provider if known else ""
    return "claude" in model.lower() and provider in MARKED


def _cache_points(messages: Sequence[Message]) -> list[dict[str, Any]]:
    points: list[dict[str, Any]] = [{"location": "message", "index": -1}]
    if messages[0].role == "system":
        points.insert(0, {"location": "message", "role": "system"})
    return points
