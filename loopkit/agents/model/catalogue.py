"""List prices and limits of models, known before a model is called.

Read from the table that LiteLLM ships, as a file: importing LiteLLM takes more
than a second, and planning a run has to know prices without it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from loopkit.agents.model.names import keys, sells
from loopkit.agents.model.rates import Rates
from loopkit.document.problems import closest

_TALKING = ("chat", "completion", "responses")
TABLE = "model_prices_and_context_window_backup.json"
_LIKE = 0.8
"""How like the name of a listed model one is that was mistyped; many models have names alike."""
REJECT_SCHEMAS = frozenset({"deepseek"})
"""Providers whose API refuses a JSON Schema, whatever the table says."""


@dataclass(frozen=True, slots=True)
class KnownModel:
    """One entry of the table."""

    max_input: int | None
    """Tokens that the model takes. `max_tokens` may mean those of an answer, so it is not read."""
    max_output: int | None
    """Tokens that the model can answer with, or takes and answers with together."""
    rates: Rates
    native_schema: bool
    """It takes a JSON Schema for its answer."""
    has_tools: bool
    """It calls functions."""
    provider: str


@lru_cache(maxsize=256)
def known_model(model: str) -> KnownModel | None:
    """What the table says of a LiteLLM model string; none where it is silent."""
    entry = _entry(model)
    if entry is None:
        return None
    return KnownModel(
        max_input=_number(entry.get("max_input_tokens")),
        max_output=_number(entry.get("max_output_tokens", entry.get("max_tokens"))),
        rates=Rates(entry),
        native_schema=_takes_schema(entry),
        has_tools=entry.get("supports_function_calling") is True,
        provider=str(entry.get("litellm_provider", "")),
    )


def provider_of(model: str) -> str:
    """Who sells a model: its prefix, else whom the table names; empty where that is silent too."""
    prefix, slash, _ = model.partition("/")
    known = None if slash else known_model(model)
    return prefix if slash else known.provider if known else ""


def near_model(model: str) -> str | None:
    """The listed model of this provider that was most likely meant by one which is not listed."""
    prefix, slash, name = model.partition("/")
    if not slash or known_model(model) is not None:
        return None
    sold = {k: str(e["litellm_provider"]) for k, e in _table().items() if e.get("mode") in _TALKING}
    if not any(sells(model, provider) for provider in sold.values()):
        meant = f"{closest(prefix, sorted(set(sold.values())))}/{name}"
        return meant if known_model(meant) is not None else None
    listed = (key.removeprefix(f"{prefix}/") for key, by in sold.items() if sells(model, by))
    # Without the prefix, which any two have in common.
    near = closest(name, listed, _LIKE)
    return None if near is None else f"{prefix}/{near}"


def _takes_schema(entry: Mapping[str, Any]) -> bool:
    is_listed = entry.get("supports_response_schema") is True
    return is_listed and entry.get("litellm_provider") not in REJECT_SCHEMAS


def _number(tokens: object) -> int | None:
    return tokens if isinstance(tokens, int) else None


def _entry(model: str) -> Mapping[str, Any] | None:
    table, spelled = _table(), _spelled()
    for key in keys(model):
        entry = table.get(key) or table.get(spelled.get(key.lower(), ""))
        if entry is not None and sells(model, entry.get("litellm_provider")):
            return entry
    return None


@cache
def _spelled() -> Mapping[str, str]:
    """The keys by their small letters: LiteLLM takes any."""
    return {key.lower(): key for key in _table()}


@cache
def _table() -> Mapping[str, Mapping[str, Any]]:
    spec = find_spec("litellm")
    if spec is None or not spec.submodule_search_locations:
        return {}
    path = Path(spec.submodule_search_locations[0], TABLE)
    try:
        table: Mapping[str, Mapping[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        # Another version may keep it elsewhere: then no price is known, which is told at start.
        return {}
    return table
