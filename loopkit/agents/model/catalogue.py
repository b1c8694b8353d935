"""List prices and limits of models, known before a model is called.

Read from the table that LiteLLM ships, as a file: importing LiteLLM takes more
than a second, and planning a run has to know prices without it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

TABLE = "model_prices_and_context_window_backup.json"
_INPUT = re.compile(r"(input_cost_per_token|cache_creation_input_token_cost)(?P<tier>\w*)")
_OUTPUT = re.compile(r"(output_cost_per_token|output_cost_per_reasoning_token)(?P<tier>\w*)")
_CACHED = re.compile(r"(cache_read_input_token_cost)(?P<tier>\w*)")
_ABOVE = re.compile(r"(_above_\d+(k_tokens|hr))+")


@dataclass(frozen=True, slots=True)
class KnownModel:
    """One entry of the table."""

    max_input: int | None
    """Tokens that the model takes. `max_tokens` may mean those of an answer, so it is not read."""
    max_output: int | None
    """Tokens that the model can answer with, or takes and answers with together."""
    dearest_input: float | None
    """USD for one token in, at the dearest rate that can apply."""
    dearest_output: float | None
    """USD for one token out, likewise."""
    cheapest_input: float
    """USD for one token in that no cache held, at the cheapest rate; 0 is unknown."""
    cheapest_cached: float
    """USD for one token in that the provider had in its cache, likewise."""
    cheapest_output: float
    """USD for one token out, likewise."""
    native_schema: bool
    """It takes a JSON Schema for its answer."""
    provider: str


def known_model(model: str, *, service_tier: bool = False) -> KnownModel | None:
    """What the table says of a LiteLLM model string; none where it is silent.

    With `service_tier` the prices of all tiers count, else those of the ordinary one.
    """
    entry = _entry(model)
    if entry is None:
        return None
    cheapest_input = min(_rates(entry, _INPUT, service_tier), default=0.0)
    return KnownModel(
        max_input=_number(entry.get("max_input_tokens")),
        max_output=_number(entry.get("max_output_tokens", entry.get("max_tokens"))),
        dearest_input=max(_rates(entry, _INPUT, service_tier), default=None),
        dearest_output=max(_rates(entry, _OUTPUT, service_tier), default=None),
        cheapest_input=cheapest_input,
        cheapest_cached=min(_rates(entry, _CACHED, service_tier), default=cheapest_input),
        cheapest_output=min(_rates(entry, _OUTPUT, service_tier), default=0.0),
        native_schema=entry.get("supports_response_schema") is True,
        provider=str(entry.get("litellm_provider", "")),
    )


def _number(tokens: object) -> int | None:
    return tokens if isinstance(tokens, int) else None


def _rates(entry: Mapping[str, Any], kind: re.Pattern[str], service_tier: bool) -> Iterator[float]:
    for key, value in entry.items():
        found = kind.fullmatch(key)
        if found is None or not isinstance(value, int | float):
            continue
        tier = found["tier"]
        if service_tier or not tier or _ABOVE.fullmatch(tier):
            yield float(value)


def _entry(model: str) -> Mapping[str, Any] | None:
    table = _table()
    if model in table:
        return table[model]
    provider, _, bare = model.partition("/")
    entry = table.get(bare)
    if entry is not None and entry.get("litellm_provider") == provider:
        return entry
    return None


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
