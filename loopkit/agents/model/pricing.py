"""Prices of model calls: the most that one can cost, and what it did cost.

List prices are read from the table that LiteLLM ships, as a file: importing LiteLLM takes more than
a second, and planning a run has to know prices without it.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic_core import from_json

from loopkit.agents.port import AnswerCaps
from loopkit.document.problems import closest
from loopkit.engine.records import MOST_USD, Usage
from loopkit.language.agents import Agent
from loopkit.language.agents.agent import AgentBase
from loopkit.language.agents.model import ModelAgent, Price
from loopkit.language.json_schema import NotInlined, inlined
from loopkit.text.json_text import texts_in

if TYPE_CHECKING:
    from loopkit.agents.port import Message, Request

MILLION = 1_000_000
ASSUMED_WINDOW = 128_000
"""The window of an unlisted model."""
WIDE_WINDOW = 1_000_000
"""The window of a listed model, if the list lacks it or headers may widen it."""
ROLE_TOKENS = 16
"""Tokens that a provider adds for each message."""
LOCAL = (
    *("ollama", "ollama_chat", "lm_studio", "llamafile", "hosted_vllm", "vllm"),
    *("docker_model_runner", "lemonade", "xinference", "oobabooga"),
)
"""Providers that are the user's own servers: without a key, they cost nothing."""
SCHEMA_TOKENS = 1_024
"""Tokens that a provider adds to ask for data of a schema."""
TOOLS_TOKENS = 1_024
"""Tokens that a provider adds to explain how tools are called."""


@dataclass(frozen=True, slots=True)
class Used:
    """The tokens of one call, as its provider counts them."""

    input: int
    """Includes tokens read from and written to the cache."""
    output: int
    cached: int = 0
    written: int = 0
    """Tokens written to the cache."""

    @property
    def total(self) -> int:
        return self.input + self.output


def quote(agent: ModelAgent, request: Request) -> Usage:
    """The most that a call can cost: what is sent at its most, the answer as long as allowed.

    The cost is None where no price or no longest answer is known; then tokens count the input
    alone.
    """
    sent, window = input_bound(request), window_of(agent, request.model)
    # More cannot be billed: a model refuses more than its window.
    sent = sent if window is None else min(sent, window)
    longest = output_cap(agent, request.model) if request.cap is None else request.cap
    return usage_bound(agent, request.model, sent, longest)


def usage_bound(agent: ModelAgent, model: str, sent: int, longest: int | None) -> Usage:
    """The most that so many tokens in and out can cost."""
    usd = _dearest(agent, model, sent, longest)
    return Usage(agent_calls=1, tokens=sent + (longest or 0), cost_usd=usd)


def input_bound(request: Request) -> int:
    """A number of tokens that no tokenizer exceeds on this request."""
    texts = sum(map(_message_bound, request.messages))
    tools = sum(
        ROLE_TOKENS + 2 * _json_bytes([t.name, t.description, t.schema]) for t in request.tools
    )
    schema = 0 if request.schema is None else SCHEMA_TOKENS + _schema_bound(request.schema)
    return texts + schema + (TOOLS_TOKENS + tools if request.tools else 0)


def _message_bound(message: Message) -> int:
    if message.role == "tool":
        # Some providers put it into a record and so send it as JSON.
        return ROLE_TOKENS + len(message.tool_call_id) + _json_bytes(message.content)
    # The result of a call names it again, and its arguments are written anew.
    calls = sum(
        ROLE_TOKENS + 2 * _json_bytes([call.id, call.name, call.arguments])
        for call in message.tool_calls
    )
    kept = _json_bytes(message.kept) if message.kept else 0
    return ROLE_TOKENS + len(message.content.encode()) + calls + kept


def _schema_bound(schema: Mapping[str, Any]) -> int:
    """It may be sent as it is, or longer, without references; strict, it has words added."""
    try:
        return 2 * max(_json_bytes(schema), _json_bytes(inlined(schema)))
    except NotInlined:
        return 2 * _json_bytes(schema)


def _json_bytes(data: object) -> int:
    return len(json.dumps(data).encode())


def least_call(agent: ModelAgent, model: str) -> Usage:
    """The most that the smallest call can cost: next to no prompt, and the shortest answer."""
    system = agent.system
    sent = ROLE_TOKENS + (len(system.encode()) + ROLE_TOKENS if system else 0)
    caps = answer_caps(agent, model, sent)
    return usage_bound(agent, model, sent, caps.least if caps else output_cap(agent, model))


def dearest_call(agent: ModelAgent, *, is_limited: bool = False) -> float | None:
    """The most that one call can cost in USD, whatever is sent: the dearest rung's whole window in,
    the longest answer out; None where unknown. An unknown window is assumed."""
    costs = [
        _dearest(
            agent,
            model,
            window_of(agent, model) or assumed_window(agent, model),
            longest_answer(agent, model, is_limited=is_limited),
        )
        for model in agent.model
    ]
    known = [cost for cost in costs if cost is not None]
    return max(known) if len(known) == len(costs) else None


def assumed_window(agent: ModelAgent, model: str) -> int | None:
    """The input tokens that a call is assumed to have at most, where the model's window is unknown
    and input costs something; else None."""
    rates = _dearest_rates(agent, model, None)
    if rates is None or not rates.input or window_of(agent, model) is not None:
        return None
    return ASSUMED_WINDOW if known_model(model) is None else WIDE_WINDOW


def is_priced(agent: ModelAgent, model: str, *, is_limited: bool = False) -> bool:
    """Whether the maximum cost of a call is known before it is made."""
    longest = longest_answer(agent, model, is_limited=is_limited)
    return _dearest(agent, model, 1, longest) is not None


def missing_prices(name: str, agent: Agent, *, is_limited: bool) -> Iterator[tuple[str, str, str]]:
    """Why the maximum cost of an agent's call is unknown, and what to add; empty where it is known.

    For each such model, the parts of a sentence: who, what, what to do.
    """
    for who, one in agent.labelled_in_turn(name):
        option = f", or `--price {name}=USD`" if one is agent else ""
        for what, remedy in _missing_prices(one, option, is_limited=is_limited):
            yield who, what, remedy


def _missing_prices(
    agent: AgentBase, option: str, *, is_limited: bool
) -> Iterator[tuple[str, str]]:
    if not isinstance(agent, ModelAgent):
        if agent.call_usd is None:
            yield "has no price", "add `price_per_run:` (0 if it is free)"
        return
    cap = "`max_tokens` to its `params:`"
    for model in agent.model:
        if is_priced(agent, model, is_limited=is_limited):
            continue
        if _dearest_rates(agent, model, None) is not None:
            yield f"may answer at any length (`{model}`)", f"add {cap}"
        else:
            is_endless = longest_answer(agent, model, is_limited=is_limited) is None
            near = None if agent.base_url else near_model(model)
            meant = f"did you mean `{near}`? If not, " if near else ""
            yield (
                f"asks `{model}`, whose price is not known",
                f"{meant}add `price:` to it{option}, in USD for a million tokens "
                f"(0 if it is free){f', and {cap}' if is_endless else ''}",
            )


def price_of(agent: ModelAgent, model: str) -> float | Price | None:
    """The price that does not come from a list: the agent's own, or 0 for a local model."""
    provider = model.partition("/")[0]
    if agent.price is not None or provider not in LOCAL or agent.api_key_env is not None:
        return agent.price
    has_key = os.environ.get(f"{provider.removesuffix('_chat').upper()}_API_KEY")
    return None if has_key else 0.0


def _dearest(agent: ModelAgent, model: str, sent: int | None, longest: int | None) -> float | None:
    """USD for so many tokens in and out; None where a rate, or a count that costs, is unknown."""
    rates = _dearest_rates(agent, model, sent)
    if rates is None:
        return None
    parts = [_part(sent, rates.input), _part(longest, rates.output), rates.call]
    known = [part for part in parts if part is not None]
    return sum(known) if len(known) == len(parts) else None


def _part(tokens: int | None, rate: float) -> float | None:
    if rate == 0:
        return 0.0
    return None if tokens is None else tokens * rate


def _dearest_rates(agent: ModelAgent, model: str, sent: int | None) -> Dearest | None:
    """The dearest rates that can apply to a call with so many tokens in; None where unknown."""
    match price_of(agent, model):
        case None:
            known = known_model(model)
            return known.rates.dearest(_options(agent), sent) if known is not None else None
        case Price() as price:
            dearest = max(price.input, price.cached or 0.0, price.cache_write or 0.0)
            return Dearest(dearest / MILLION, price.output / MILLION)
        case rate:
            return Dearest(rate / MILLION, rate / MILLION)


def usual_cost(agent: ModelAgent, model: str, sent: int, answered: int) -> float | None:
    """USD for so many tokens at the usual rates; None where unknown.

    A model is sent no more than it takes.
    """
    window = window_of(agent, model) or assumed_window(agent, model)
    sent = sent if window is None else min(sent, window)
    if price_of(agent, model) is not None:
        return cost(agent, model, Used(sent, answered), None)
    known = known_model(model)
    rates = known.rates.usual(_options(agent), sent) if known is not None else None
    return None if rates is None else sent * rates.input + answered * rates.output + rates.call


def cached_share(agent: ModelAgent, model: str) -> float:
    """The price of a token from the provider's cache, as a share of the price of a new one; 1 where
    it is the same or unknown."""
    match price_of(agent, model):
        case None:
            known = known_model(model)
            rates = known.rates.cheapest(_options(agent)) if known is not None else None
            new, cached = (rates.input, rates.cached) if rates is not None else (0.0, 0.0)
        case Price() as price:
            new, cached = price.input, price.input if price.cached is None else price.cached
        case _:
            return 1.0
    return cached / new if new else 1.0


def _options(agent: ModelAgent) -> Options:
    return Options.of(agent.params, agent.base_url)


def cost(agent: ModelAgent, model: str, used: Used, listed: float | None) -> float | None:
    """USD for the tokens of a call: by the agent's own price, else by LiteLLM's figure.

    If LiteLLM does not find the price that it lists, the dearest listed rates count.
    """
    match price_of(agent, model):
        case None if listed is None:
            return _dearest(agent, model, used.input, used.output)
        case None:
            return listed
        case Price() as price:
            cached = price.input if price.cached is None else price.cached
            written = price.input if price.cache_write is None else price.cache_write
            fresh = used.input - used.cached - used.written
            taken = fresh * price.input + used.cached * cached + used.written * written
            return (taken + used.output * price.output) / MILLION
        case rate:
            return used.total * rate / MILLION


def least_cost(agent: ModelAgent, model: str, used: Used) -> float:
    """USD that so many tokens cost at the cheapest list prices that can apply; 0 is unknown."""
    known = known_model(model)
    if known is None:
        return 0.0
    least = known.rates.cheapest(_options(agent))
    fresh = (used.input - used.cached - used.written) * least.input
    kept = used.cached * least.cached + used.written * least.written
    return fresh + kept + used.output * least.output


def listed_cost(model: str, hidden: Mapping[str, Any], least: float = 0.0) -> float | None:
    """LiteLLM's figure for the cost of a call in USD, or None where it has none.

    A server can falsify it, so it counts as no less than `least`, which is by the list prices, and
    not at all if no call costs so much. 0 means that LiteLLM has no price, unless the list price of
    the model is 0.
    """
    said = hidden.get("response_cost")
    if not isinstance(said, int | float) or isinstance(said, bool) or not said <= MOST_USD:
        return None
    if said > 0:
        return max(float(said), least)
    known = known_model(model)
    rates = known.rates.dearest() if known is not None else None
    return 0.0 if rates is not None and not (rates.input or rates.output or rates.call) else None


OUTPUT_CAPS = ("max_completion_tokens", "max_tokens")
USUAL_ANSWER = 16_384
LEAST_ANSWER = 1_024
"""An answer with a lower cap is of no use."""
TAKES_NO_CAP = ("v0", "morph", "fal_ai", "scaledown")
"""Providers to which LiteLLM refuses to send a cap."""
_BYTES_PER_TOKEN = 2
"""Nearly every text has more."""
_BUDGETS = ("budget_tokens", "budgetTokens", "thinking_budget", "thinkingBudget")
_EFFORTS = {
    "minimal": 128, "low": 1_024, "medium": 2_048, "high": 4_096, "xhigh": 8_192, "max": 16_384,
}  # fmt: skip
"""The budgets that LiteLLM gives a model for an effort in words."""


def needs_caps(limits: Mapping[str, Any]) -> bool:
    """Whether limits can only be kept if the longest answer is known."""
    return limits.get("tokens") is not None or limits.get("cost_usd") is not None


def answer_caps(agent: ModelAgent, model: str, sent: int = 0) -> AnswerCaps | None:
    """The caps for an answer to `sent` tokens; None where the agent's own options have one.

    More tokens never raise a cap.
    """
    is_said = any(agent.params.get(name) is not None for name in OUTPUT_CAPS)
    if is_said or model.partition("/")[0] in TAKES_NO_CAP:
        return None
    known, thinking = known_model(model), thinking_budget(agent.params)
    own = known.max_output if known else None
    usual, least = thinking + USUAL_ANSWER, thinking + LEAST_ANSWER
    if (window := window_of(agent, model)) is not None:
        # The request and the answer may have to share it.
        usual = min(usual, max(least, window - sent // _BYTES_PER_TOKEN))
    if own is not None:
        usual, least = min(usual, own), min(least, own)
    return AnswerCaps(usual=usual, least=least, most=own)


def longest_answer(agent: ModelAgent, model: str, *, is_limited: bool) -> int | None:
    """The tokens that no answer exceeds; `is_limited` is for a run whose limits need caps."""
    caps = answer_caps(agent, model) if is_limited else None
    return output_cap(agent, model) if caps is None else caps.usual


def output_cap(agent: ModelAgent, model: str) -> int | None:
    """The longest answer in tokens: by the agent's `params`, else by the model."""
    for name in OUTPUT_CAPS:
        cap = agent.params.get(name)
        if isinstance(cap, int) and not isinstance(cap, bool):
            return cap
    known = known_model(model)
    return known.max_output if known else None


def window_of(agent: ModelAgent, model: str) -> int | None:
    """The tokens that a model takes; None where unknown, as with headers that may widen it."""
    known = known_model(model)
    return None if known is None or "extra_headers" in agent.params else known.max_input


def thinking_budget(params: Mapping[str, Any]) -> int:
    """The tokens that a model may use to think, by the agent's options; 0 where these set none."""
    return max(_budgets(params), default=0)


def _budgets(params: Mapping[str, Any]) -> Iterator[int]:
    for name, value in params.items():
        if name in _BUDGETS:
            yield _tokens(value)
        elif name == "reasoning_effort" and isinstance(value, str):
            yield _EFFORTS.get(value, 0)
        elif isinstance(value, Mapping):
            if name in ("reasoning", "reasoning_effort"):
                yield _tokens(value.get("max_tokens"))
                yield _EFFORTS.get(str(value.get("effort")), 0)
            yield from _budgets(value)


def _tokens(value: object) -> int:
    return value if type(value) is int and value > 0 else 0


_TEXTUAL = ("chat", "completion", "responses")
TABLE = "model_prices_and_context_window_backup.json"
_SIMILARITY = 0.8
"""How similar a mistyped name has to be to a listed one; many names are alike."""
REJECT_SCHEMAS = frozenset({"deepseek"})
"""Providers whose API refuses a JSON Schema, whatever the table says."""

_REGIONS = ("eu", "us")


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
            words=frozenset(text for _, text in texts_in(params)),
            region=next((region for host, region in hosts.items() if host in (base_url or "")), ""),
            location=location if isinstance(location, str) else None,
            searches="web_search_options" in params,
        )


ORDINARY = Options()


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


@dataclass(frozen=True, slots=True)
class KnownModel:
    max_input: int | None
    """Tokens that the model takes. `max_tokens` may mean those of an answer, so it is not read."""
    max_output: int | None
    """Tokens that the model can answer with, or takes and answers with together."""
    rates: Rates
    native_schema: bool
    """It takes a JSON Schema for its answer."""
    has_tools: bool
    provider: str


@lru_cache(maxsize=256)
def known_model(model: str) -> KnownModel | None:
    """The entry of the table for a LiteLLM model string; None where there is none."""
    entry = _entry(model)
    if entry is None:
        return None
    provider = str(entry.get("litellm_provider", ""))
    takes_schema = entry.get("supports_response_schema") is True
    return KnownModel(
        max_input=_token_count(entry.get("max_input_tokens")),
        max_output=_token_count(entry.get("max_output_tokens", entry.get("max_tokens"))),
        rates=Rates(entry),
        native_schema=takes_schema and provider not in REJECT_SCHEMAS,
        has_tools=entry.get("supports_function_calling") is True,
        provider=provider,
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


def _token_count(tokens: object) -> int | None:
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
_CACHED_SHARE = {"fireworks_ai": 0.5}
"""By provider: the share of the input rate for cached tokens without a listed rate."""


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


@dataclass(frozen=True, slots=True)
class Cheapest:
    """USD at the cheapest rates that can apply to a token; 0 is unknown."""

    input: float
    cached: float
    written: float
    output: float


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


_BEDROCK = ("bedrock", "bedrock_converse", "bedrock_mantle")
_SOLD_AS: Mapping[str, tuple[str, ...]] = {
    "ai21_chat": ("ai21",),
    "amazon-nova": ("amazon_nova",),
    "anthropic_text": ("anthropic",),
    "azure": ("azure", "azure_text"),
    "azure_ai": ("azure_ai", "azure", "openai"),
    "bedrock": _BEDROCK,
    "bedrock_converse": _BEDROCK,
    "bedrock_mantle": _BEDROCK,
    "cohere": ("cohere", "cohere_chat"),
    "ollama_chat": ("ollama",),
    "sagemaker_chat": ("sagemaker",),
    "vertex_ai_beta": ("vertex_ai",),
    "watsonx_text": ("watsonx",),
}
"""By prefix: the providers that the table gives its models, where those have other names."""
_LISTED_UNDER: Mapping[str, tuple[str, ...]] = {
    "amazon_nova": ("amazon-nova/",),
    "azure_text": ("azure/",),
    "fireworks_ai": tuple(
        f"fireworks_ai/accounts/fireworks/{kind}/" for kind in ("models", "routers")
    ),
    "ollama_chat": ("ollama/",),
    "sagemaker_chat": ("sagemaker/",),
    "vertex_ai": ("vertex_ai/meta/",),
    "vertex_ai_beta": ("vertex_ai/",),
    "watsonx_text": ("watsonx/",),
}
"""By prefix: how the table's keys begin, where that is neither the prefix nor empty."""
_RESELLER = "github"
"""It sells models of others under their own names."""

_ROUTE = re.compile(r"(?:converse|invoke|chat_completions|mantle|openai|responses|nova(?:-2)?)/")
"""The interface of a provider that is called; the price is the same for all."""
_AWS_PLACE = re.compile(r"^(?:(?:[a-z]+-)+\d+/|(?:global|apac|[a-z]{2}(?:-gov)?)\.(?=.+\.))")
_AWS_WINDOW = re.compile(r"(?<=:\d):\d+k$|\[\w+\]$")
_GOOGLE_VERSION = re.compile(r"-\d+$")
_FINE_TUNED = re.compile(r"(?<=ft:)([^:]+)(?::[^:]*){3}$")
_SNAPSHOT = re.compile(r"-\d{4}-\d\d-\d\d$")
_VERSIONED = frozenset({"vertex_ai", "vertex_ai_beta", "gemini", "databricks"})


def keys(model: str) -> Iterator[str]:
    """The keys under which a model may be listed, the likeliest first."""
    prefix, slash, name = model.partition("/")
    if not slash:
        yield from (model, _ordinary(model))
        return
    for form in _forms(prefix, name):
        for start in (f"{prefix}/", *_LISTED_UNDER.get(prefix, ()), ""):
            yield start + form


def sells(model: str, provider: str | None) -> bool:
    """Whether the prefix of a model is that of a provider in the table; a name without one fits."""
    prefix, slash, _ = model.partition("/")
    if not slash or provider is None or prefix == _RESELLER:
        return True
    names = _SOLD_AS.get(prefix, (prefix,))
    return any(provider == name or provider.startswith(f"{name}-") for name in names)


def _forms(prefix: str, name: str) -> Iterator[str]:
    """The name as it is written, then without its region, its route and its version."""
    yield name
    bare = name
    while route := _ROUTE.match(bare):
        bare = bare[route.end() :]
    yield bare
    if prefix in _BEDROCK:
        whole = _AWS_WINDOW.sub("", bare.rpartition("/")[2] if "arn:" in bare else bare)
        yield whole
        yield _AWS_PLACE.sub("", whole)
    elif prefix in _VERSIONED:
        yield f"{bare}@latest"
        yield _GOOGLE_VERSION.sub("", bare)
    else:
        yield _ordinary(bare)


def _ordinary(name: str) -> str:
    return _FINE_TUNED.sub(r"\1", name) if "ft:" in name else _SNAPSHOT.sub("", name)
