"""What a provider wants back of a model's thoughts while the model calls tools.

Anthropic refuses the results of tools without the signed thoughts that came before the calls, as
does DeepSeek without the plain ones. Only who sent them can read them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from loopkit.agents.model.catalogue import provider_of

ORIGIN = "from"
"""The key that names who sent what is kept."""
SEALED: Mapping[str, tuple[str, ...]] = {
    "thinking_blocks": ("signature", "data"),
    "reasoning_items": ("encrypted_content",),
}
"""Where LiteLLM puts thoughts, and what each has that can be sent back. Without it providers take
them for text of ours, or look for what they have stored themselves."""
PLAIN = "reasoning_content"
WANT_PLAIN = frozenset({"deepseek", "moonshot", "ollama_chat", "zai"})
"""Providers whose models go on from their thoughts as they are."""
DETAILS = "reasoning_details"
"""Those of OpenRouter, with the signatures of the provider behind it."""
_CLAUDE = "claude"
_SELL_CLAUDE = frozenset({
    "anthropic", "bedrock", "bedrock_converse", "vertex_ai", "vertex_ai_beta",
    "vertex_ai-anthropic_models",
})  # fmt: skip
"""Providers that can read each other's thoughts of Claude."""


def kept_of(message: Any, model: str) -> dict[str, Any]:
    """What of LiteLLM's message its sender wants back, and who that is."""
    return {ORIGIN: _origin(model), **dict(_thoughts(message, provider_of(model)))}


def is_from(kept: Mapping[str, Any], model: str) -> bool:
    """Whether a message was sent by whoever is asked now."""
    return kept.get(ORIGIN) == _origin(model)


def sent_back(kept: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of the message that brings back what was kept."""
    return {name: value for name, value in kept.items() if name != ORIGIN}


def _origin(model: str) -> str:
    provider = provider_of(model)
    is_claude = _CLAUDE in model.lower() and provider in _SELL_CLAUDE
    return _CLAUDE if is_claude else provider


def _thoughts(message: Any, provider: str) -> Iterator[tuple[str, Any]]:
    for name, seals in SEALED.items():
        parts = _plain_list(getattr(message, name, None))
        if sealed := [part for part in parts if any(part.get(seal) for seal in seals)]:
            yield name, sealed
    own = getattr(message, "provider_specific_fields", None)
    if isinstance(own, Mapping) and (details := _plain_list(own.get(DETAILS))):
        yield DETAILS, details
    thought = getattr(message, PLAIN, None)
    if provider in WANT_PLAIN and isinstance(thought, str):
        yield PLAIN, thought


def _plain_list(value: object) -> list[dict[str, Any]]:
    """The records of a list, as they can be stored; empty where it is none of records."""
    if not isinstance(value, list):
        return []
    try:
        plain = json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError, RecursionError):
        return []
    return [part for part in plain if isinstance(part, dict)]
