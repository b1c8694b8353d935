"""List prices and limits of models, known before a model is called.

Read from the table that LiteLLM ships, as a file: importing LiteLLM takes more
than a second, and planning a run has to know prices without it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pydantic_core import from_json

from loopkit.agents.model.names import keys, sells
from loopkit.agents.model.rates import Rates
from loopkit.document.problems import closest

_TEXTUAL = ("chat", "completion", "responses")
TABLE = "model_prices_and_context_window_backup.json"
_SIMILARITY = 0.8
"""How similar a mistyped name has to be to a listed one; many names are alike."""
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
    """The entry of the table for a LiteLLM model string; None where there is none."""
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
    """The provider of a model: its prefix, else the one in the table; empty where unknown."""
    prefix, slash, _ = model.partition("/")
    known = None if slash else known_model(model)
    return prefix if slash else known.provider if known else ""


def near_model(model: str) -> str | None:
    """The listed model that an unlisted name of the same provider most likely means."""
    prefix, slash, name = model.partition("/")
    if not slash or known_model(model) is not None:
        return None
    sold = {k: str(e["litellm_provider"]) for k, e in _table().items() if e.get("mode") in _TEXTUAL}
    if not any(sells(model, provider) for provider in sold.values()):
        meant = f"{closest(prefix, sorted(set(sold.values())))}/{name}"
        return meant if known_model(meant) is not None else None
    listed = (key.removeprefix(f"{prefix}/") for key, by in sold.items() if sells(model, by))
    # Compared without the prefix, which they all share.
    near = closest(name, listed, _SIMILARITY)
    return None if near is None else f"{prefix}/{near}"


def _takes_schema(entry: Mapping[str, Any]) -> bool:
    is_listed = entry.get("supports_response_schema") is True
    return is_listed and entry.get("litellm_provider") not in REJECT_SCHEMAS


def _number(tokens: object) -> int | None:
    return tokens if isinstance(tokens, int) else None


def _entry(model: str) -> Mapping[str, Any] | None:
    table, by_lower_case = _table(), _keys_by_lower_case()
    for key in keys(model):
        entry = table.get(key) or table.get(by_lower_case.get(key.lower(), ""))
        if entry is not None and sells(model, entry.get("litellm_provider")):
            return entry
    return None


@cache
def _keys_by_lower_case() -> Mapping[str, str]:
    """The keys by their lower case: LiteLLM ignores case."""
    return {key.lower(): key for key in _table()}


@cache
def _table() -> Mapping[str, Mapping[str, Any]]:
    spec = find_spec("litellm")
    if spec is None or not spec.submodule_search_locations:
        return {}
    path = Path(spec.submodule_search_locations[0], TABLE)
    try:
        table: Mapping[str, Mapping[str, Any]] = from_json(path.read_bytes())
    except FileNotFoundError:
        # Another version may keep it elsewhere: a start then says that no price is known.
        return {}
    return table
