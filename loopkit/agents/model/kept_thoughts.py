"""Kept thoughts: those of a model that its provider wants back while it calls tools.

Anthropic refuses the results of tools without the signed thoughts that came before the calls, as
does DeepSeek without the plain ones. Only their sender can read them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from loopkit.agents.model.catalogue import provider_of

ORIGIN = "from"
"""The key that names the sender of the kept thoughts."""
SEALED: Mapping[str, tuple[str, ...]] = {
    "thinking_blocks": ("signature", "data"),
    "reasoning_items": ("encrypted_content",),
}
"""The fields in which LiteLLM puts thoughts, and what those have that can be returned. Without it,
providers take them for text of ours, or look for what they have stored themselves."""
PLAIN = "reasoning_content"
WANT_PLAIN = frozenset({"deepseek", "moonshot", "ollama_chat", "zai"})
"""Providers whose models continue from their plain thoughts."""
DETAILS = "reasoning_details"
"""The thoughts of OpenRouter, with the signatures of the provider behind it."""
_CLAUDE = "claude"
_SELL_CLAUDE = frozenset({
    "anthropic", "bedrock", "bedrock_converse", "vertex_ai", "vertex_ai_beta",
    "vertex_ai-anthropic_models",
})  # fmt: skip
"""Providers that can read each other's thoughts of Claude."""


def thoughts_to_keep(message: Any, model: str) -> dict[str, Any]:
    """The thoughts in LiteLLM's message that its sender wants back, and who that is."""
    return {ORIGIN: _origin(model), **dict(_thoughts(message, provider_of(model)))}


def is_from(kept: Mapping[str, Any], model: str) -> bool:
    """Whether `model` is of the sender of a message."""
    return kept.get(ORIGIN) == _origin(model)


def fields_to_return(kept: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a message that return the kept thoughts."""
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
    """The records of a list as storable JSON; empty for anything else."""
    if not isinstance(value, list):
        return []
    try:
        plain = json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError, RecursionError):
        return []
    return [part for part in plain if isinstance(part, dict)]
