"""A request of the driver → the arguments of one LiteLLM call."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from loopkit.agents.model.catalogue import known_model, provider_of
from loopkit.agents.model.chat_messages import chat_messages
from loopkit.agents.model.schema import is_closed, native_form, strict_form
from loopkit.agents.model.tool_support import (
    has_tools,
    offered_tools,
    takes_schema_too,
    tool_arguments,
)
from loopkit.agents.port import Message, Request
from loopkit.language import ModelAgent

MARKED = frozenset({
    "anthropic", "bedrock", "bedrock_converse", "vertex_ai", "vertex_ai_beta", "openrouter",
    "vertex_ai-anthropic_models",
})  # fmt: skip
"""Providers of Claude, by the prefix of the model, or by the table if it has none."""


def arguments(agent: ModelAgent, request: Request) -> dict[str, Any]:
    """The keyword arguments of `litellm.acompletion`, without retries and timeout."""
    keywords: dict[str, Any] = {
        "model": request.model,
        "messages": chat_messages(
            _messages(agent, request), request.model, has_tools=has_tools(agent, request.model)
        ),
        **agent.params,
        **tool_arguments(agent, request),
    }
    if request.cap is not None:
        keywords["max_tokens"] = request.cap
    if agent.base_url is not None:
        keywords["base_url"] = agent.base_url
    if agent.api_key_env is not None:
        keywords["api_key"] = os.environ.get(agent.api_key_env)
    if (schema := native_schema(agent, request)) is not None:
        keywords["response_format"] = _response_format(strict_form(schema))
    if request.is_sent_again and _is_marked(request.model):
        # Writing it to the cache costs a quarter more; reading it there costs a tenth.
        keywords.setdefault("cache_control_injection_points", _cache_points(request.messages))
    return keywords


def native_schema(agent: ModelAgent, request: Request) -> Mapping[str, Any] | None:
    """The schema that is sent as such; None where there is none, or it is asked for in words."""
    form = None if request.schema is None else native_form(request.schema)
    if offered_tools(agent, request) and not takes_schema_too(agent, request.model):
        return None
    if agent.structured is not None:
        return form or request.schema if agent.structured == "native" else None
    known = known_model(request.model)
    return form if known is not None and known.native_schema else None


def _messages(agent: ModelAgent, request: Request) -> Sequence[Message]:
    if request.schema is None or native_schema(agent, request) is not None:
        return request.messages
    instruction = schema_in_words(request.schema)
    first, *rest = request.messages
    if first.role == "system":
        return [Message("system", f"{first.content.rstrip()}\n\n{instruction}"), *rest]
    return [Message("system", instruction), first, *rest]


def schema_in_words(schema: Mapping[str, Any]) -> str:
    """The instruction for a model without structured output."""
    text = json.dumps(schema, ensure_ascii=False)
    return f"Answer with one JSON value that fits this JSON Schema, and with nothing else:\n{text}"


def _response_format(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": "json_schema",
        "json_schema": {"name": "answer", "schema": schema, "strict": is_closed(schema)},
    }


def _is_marked(model: str) -> bool:
    """Whether the model is a Claude of a provider that caches only what is marked."""
    return "claude" in model.lower() and provider_of(model) in MARKED


def _cache_points(messages: Sequence[Message]) -> list[dict[str, Any]]:
    points: list[dict[str, Any]] = [{"location": "message", "index": -1}]
    if messages[0].role == "system":
        points.insert(0, {"location": "message", "role": "system"})
    return points
