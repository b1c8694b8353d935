"""Rates of a model: the prices of a token in LiteLLM's table, and those that a call can reach.

A rate counts where it can apply: one for long prompts from that length on, one of a service tier,
of a cache for an hour or of a region if the options of the agent ask for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

_RATE = re.compile(
    r"(?P<kind>input_cost_per_token|output_cost_per_token|output_cost_per_reasoning_token"
    r"|cache_creation_input_token_cost|cache_read_input_token_cost)"
    r"(?P<hour>_above_1hr)?(?:_above_(?P<above>\d+)k_tokens)?(?:_(?P<tier>[a-z]+))?"
)
_INPUT, _OUTPUT = "input_cost_per_token", "output_cost_per_token"
_WRITTEN, _CACHED = "cache_creation_input_token_cost", "cache_read_input_token_cost"
_REASONING = "output_cost_per_reasoning_token"
_ORDINARY_TIERS = frozenset({"default", "standard", "standard_only"})
_TIERS = {
    "fast": "priority",
    **{name: name for name in ("flex", "balanced", "priority", "ultrafast")},
}
_REGIONS = ("eu", "us")
_CACHED_SHARE = {"fireworks_ai": 0.5}
"""By provider: the share of the input rate for cached tokens without a listed rate."""


@dataclass(frozen=True, slots=True)
class Options:
    """The options of an agent that may have a rate of their own."""

    tier: str | None = None
    words: frozenset[str] = frozenset()
    """All texts among them, such as `fast`, `us` or `1h`."""
    region: str = ""
    """The region of the provider's address, if it has one."""
    location: str | None = None
    """The location of Google's endpoint."""
    searches: bool = False

    @classmethod
    def of(cls, params: Mapping[str, Any], base_url: str | None) -> Options:
        """The options in the `params` and the address of an agent."""
        tier = params.get("service_tier")
        location = params.get("vertex_location", params.get("vertex_ai_location"))
        hosts = {f"//{region}.api.openai.com": region for region in _REGIONS}
        return cls(
            tier=tier if isinstance(tier, str) else None,
            words=frozenset(_texts(params)),
            region=next((region for host, region in hosts.items() if host in (base_url or "")), ""),
            location=location if isinstance(location, str) else None,
            searches="web_search_options" in params,
        )


ORDINARY = Options()


@dataclass(frozen=True, slots=True)
class _Rate:
    kind: str
    usd: float
    above: int
    """Applies from this number of input tokens."""
    tier: str
    is_for_an_hour: bool

    def applies(self, options: Options, sent: int | None) -> bool:
        """Whether it can apply to a call with so many tokens in; None is any number."""
        is_reached = sent is None or sent >= self.above
        is_kept = not self.is_for_an_hour or "1h" in options.words
        return is_reached and is_kept and self._is_served(options.tier)

    def _is_served(self, tier: str | None) -> bool:
        if not self.tier:
            return True
        if tier is None or tier in _ORDINARY_TIERS:
            return False
        # A tier that the provider chooses, or that is not named here, may be any of them.
        return _TIERS.get(tier, self.tier) == self.tier


@dataclass(frozen=True, slots=True)
class Dearest:
    """USD at the dearest rates that can apply to a call."""

    input: float
    output: float
    call: float = 0.0
    """The price of the call itself."""

    @property
    def is_free(self) -> bool:
        return not (self.input or self.output or self.call)


@dataclass(frozen=True, slots=True)
class Cheapest:
    """USD at the cheapest rates that can apply to a token; 0 is unknown."""

    input: float
    cached: float
    written: float
    output: float


class Rates:
    """All rates of one entry of the table."""

    def __init__(self, entry: Mapping[str, Any]) -> None:
        self._entry = entry
        self._rates = tuple(_rates(entry))

    def dearest(self, options: Options = ORDINARY, sent: int | None = None) -> Dearest | None:
        """The dearest rates for a call with so many tokens in; None where the table has none.

        Rates for a cache of minutes count: a conversation that is sent again is marked for it.
        """
        return self._greatest((_INPUT, _WRITTEN), (_OUTPUT, _REASONING), options, sent)

    def usual(self, options: Options, sent: int) -> Dearest | None:
        """The dearest rates without writing to a cache and without a separate rate for thinking."""
        return self._greatest((_INPUT,), (_OUTPUT,), options, sent)

    def _greatest(
        self,
        sending: tuple[str, ...],
        answering: tuple[str, ...],
        options: Options,
        sent: int | None,
    ) -> Dearest | None:
        sends = list(self._usd(sending, options, sent))
        answers = list(self._usd(answering, options, sent))
        # A model with prices for answers alone takes texts for free, such as one that makes films.
        takes_texts_free = not any(rate.kind == _INPUT for rate in self._rates)
        if not answers or not (sends or takes_texts_free):
            return None
        factor = self._factor(options)
        search = self._search(options)
        return Dearest(max(sends, default=0.0) * factor, max(answers) * factor, search)

    def cheapest(self, options: Options = ORDINARY) -> Cheapest:
        """The cheapest rates, by night and for short prompts too."""
        night = self._entry.get("off_peak_pricing")
        by_night = list(_rates_at(night, 0)) if isinstance(night, Mapping) else []

        def least(kind: str, unlisted: float) -> float:
            found = [rate.usd for rate in by_night if rate.kind == kind]
            return min((*found, *self._usd((kind,), options, None)), default=unlisted)

        fresh = least(_INPUT, 0.0)
        share = _CACHED_SHARE.get(self._entry.get("litellm_provider", ""), 1.0)
        return Cheapest(
            input=fresh,
            cached=least(_CACHED, fresh * share),
            written=min(least(_WRITTEN, 0.0), fresh),
            output=least(_OUTPUT, 0.0),
        )

    def _usd(self, kinds: Iterable[str], options: Options, sent: int | None) -> Iterator[float]:
        for rate in self._rates:
            if rate.kind in kinds and rate.applies(options, sent):
                yield rate.usd

    def _factor(self, options: Options) -> float:
        """The factor on all rates for a region or for speed."""
        factor, own = 1.0, self._entry.get("provider_specific_entry")
        for word, by in own.items() if isinstance(own, Mapping) else ():
            if word in options.words:
                factor *= _number(by) or 1.0
        if options.region:
            factor *= self._multiplier(f"regional_processing_uplift_multiplier_{options.region}")
        if options.location != "global":
            # Unless the options say otherwise, Google's endpoint is that of a region.
            factor *= self._multiplier("regional_endpoint_uplift_multiplier")
        return factor

    def _multiplier(self, key: str) -> float:
        return _number(self._entry.get(key)) or 1.0

    def _search(self, options: Options) -> float:
        """The price of one web search, if it is asked for or part of every call."""
        costs = self._entry.get("search_context_cost_per_query")
        is_made = options.searches or self._entry.get("litellm_provider") == "perplexity"
        if not is_made or not isinstance(costs, Mapping):
            return 0.0
        return max((_number(cost) or 0.0 for cost in costs.values()), default=0.0)


def _rates(entry: Mapping[str, Any]) -> Iterator[_Rate]:
    yield from _rates_at(entry, 0)
    tiers = entry.get("tiered_pricing")
    for tier in tiers if isinstance(tiers, list) else ():
        match tier:
            case {"range": [int() | float() as above, *_]}:
                yield from _rates_at(tier, int(above))


def _rates_at(entry: Mapping[str, Any], above: int) -> Iterator[_Rate]:
    for key, value in entry.items():
        found, usd = _RATE.fullmatch(key), _number(value)
        if found is not None and usd is not None:
            beyond = int(found["above"]) * 1_000 if found["above"] else above
            yield _Rate(found["kind"], usd, beyond, found["tier"] or "", bool(found["hour"]))


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value)


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _texts(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _texts(inner)
