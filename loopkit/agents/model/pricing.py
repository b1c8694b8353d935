"""Prices of model calls: the most that one can cost, and what it did cost.

LiteLLM's price list is read as a file: importing LiteLLM takes more than a second.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Set
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.util import find_spec
from math import prod
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from pydantic_core import from_json

from loopkit.agents.port import AnswerCaps, Message, Request
from loopkit.engine.payloads import TokenUse
from loopkit.engine.records import MOST_USD, Usage
from loopkit.language.agents import Agent, known_providers, meant_model, similar_model
from loopkit.language.agents.model import ModelAgent, Price
from loopkit.language.json_schema import NotInlined, inlined
from loopkit.text.json_text import texts_in

MILLION = 1_000_000
FORMAT_TOKENS = 256
ROLE_TOKENS = 16
SCHEMA_TOKENS = 1_024
TOOLS_TOKENS = 1_024
"""What the chat format of a model adds to a request, to each message, for a schema, for tools."""
LOCAL = (
    *("ollama", "ollama_chat", "lm_studio", "llamafile", "hosted_vllm", "vllm"),
    *("docker_model_runner", "lemonade", "xinference", "oobabooga"),
)
"""Providers that are the user's own servers: without a key, they cost nothing."""
_INPUT, _OUTPUT = "input_cost_per_token", "output_cost_per_token"
_WRITTEN = "cache_creation_input_token_cost"
_CACHED = "cache_read_input_token_cost"
_THOUGHT = "output_cost_per_reasoning_token"
_ALL = (_INPUT, _WRITTEN, _OUTPUT, _THOUGHT)


def quote(agent: ModelAgent, request: Request) -> Usage:
    """The most that a call can cost. Without a price or a longest answer the cost is None, and
    tokens are those of the input alone."""
    sent = input_bound(request)
    window = window_of(agent, request.model)
    # More cannot be billed: a model refuses more than its window.
    sent = sent if window is None else min(sent, window)
    longest = output_cap(agent, request.model) if request.cap is None else request.cap
    usd = most_usd(agent, request.model, sent, longest)
    return Usage(agent_calls=1, tokens=sent + (longest or 0), cost_usd=usd)


def input_bound(request: Request) -> int:
    """A number of tokens that no tokenizer exceeds on this request."""
    total = FORMAT_TOKENS + sum(map(_message_bound, request.messages))
    if request.tools:
        tools = [[tool.name, tool.description, tool.schema] for tool in request.tools]
        total += TOOLS_TOKENS + sum(ROLE_TOKENS + 2 * _json_bytes(tool) for tool in tools)
    if request.schema is not None:
        # It may be sent as it is, or longer, without references; strict, it has words added.
        forms = [request.schema]
        with suppress(NotInlined):
            forms.append(inlined(request.schema))
        total += SCHEMA_TOKENS + 2 * max(map(_json_bytes, forms))
    return total


def _message_bound(message: Message) -> int:
    if message.role == "tool":
        # Some providers put it into a record and so send it as JSON.
        return ROLE_TOKENS + len(message.tool_call_id) + _json_bytes(message.content)
    # The result of a call names it again, and its arguments are written anew.
    calls = [[call.id, call.name, call.arguments] for call in message.tool_calls]
    kept = _json_bytes(message.kept) if message.kept else 0
    told = ROLE_TOKENS + len(message.content.encode()) + kept
    return told + sum(ROLE_TOKENS + 2 * _json_bytes(call) for call in calls)


def _json_bytes(data: object) -> int:
    return len(json.dumps(data).encode())


def least_call(agent: ModelAgent, model: str, request: Request) -> Usage:
    """The most that the request can cost if it gets the shortest answer."""
    caps = answer_caps(agent, model, input_bound(request))
    return quote(agent, request.replace(model=model, cap=caps.least if caps else None))


def dearest_call(
    agent: ModelAgent, *, is_limited: bool = False, tokens: int | None = None
) -> float | None:
    """The most USD that a call can cost in a run that is limited to so many tokens: the dearest
    rung's whole window in and the longest answer out; None where one or a price is unknown."""
    dearest = 0.0
    for model in agent.model:
        sent = min(filter(None, (window_of(agent, model), tokens)), default=None)
        longest = longest_answer(agent, model, is_limited=is_limited)
        if (usd := most_usd(agent, model, sent, longest)) is None:
            return None
        dearest = max(dearest, usd)
    return dearest


def missing_bounds(agent: ModelAgent, *, is_limited: bool = False) -> Iterator[str]:
    """The keys without which nothing bounds what a call costs."""
    for model in agent.model:
        rates = highest_rates(agent, model)
        if rates is None:
            yield "price"
        longest = longest_answer(agent, model, is_limited=is_limited)
        if longest is None and (rates is None or rates.output):
            yield "max_tokens"
        if not is_limited and window_of(agent, model) is None and (rates is None or rates.input):
            yield "limits.tokens"


def is_priced(agent: ModelAgent, model: str, *, is_limited: bool = False) -> bool:
    """Whether the maximum cost of a call is known before it is made."""
    longest = longest_answer(agent, model, is_limited=is_limited)
    return most_usd(agent, model, 1, longest) is not None


_CAP = "`max_tokens` to its `params:`"


def missing_prices(name: str, agent: Agent, *, is_limited: bool) -> Iterator[tuple[str, str, str]]:
    """For each model whose maximum cost is unknown the parts of a sentence: who, what, remedy."""
    for who, one in agent.labelled_in_turn(name):
        if not isinstance(one, ModelAgent):
            if one.call_usd is None:
                yield who, "has no price", "add `price_per_run:` (0 if it is free)"
            continue
        for model in one.model:
            if is_priced(one, model, is_limited=is_limited):
                continue
            what = f"may answer at any length (`{model}`)"
            remedy = f"add {_CAP}"
            if highest_rates(one, model) is None:
                what = f"asks `{model}`, whose price is not known"
                near = None if one.base_url else near_model(model)
                remedy = f"did you mean `{near}`? If not, " if near else ""
                option = f", or `--price {name}=USD`" if one is agent else ""
                remedy += (
                    f"add `price:` to it{option}, in USD for a million tokens (0 if it is free)"
                )
                if longest_answer(one, model, is_limited=is_limited) is None:
                    remedy += f", and {_CAP}"
            yield who, what, remedy


def own_price(agent: ModelAgent, model: str) -> Price | None:
    """The agent's own price, or 0 for a local model; None where the list says it."""
    provider, price = model.partition("/")[0], agent.price
    if price is None and provider in LOCAL and agent.api_key_env is None:
        has_key = os.environ.get(f"{provider.removesuffix('_chat').upper()}_API_KEY")
        price = None if has_key else 0.0
    return Price(input=price, output=price) if isinstance(price, int | float) else price


def most_usd(
    agent: ModelAgent,
    model: str,
    sent: int | None,
    longest: int | None,
    kinds: tuple[str, ...] = _ALL,
) -> float | None:
    """USD at the highest rates of these kinds; None where a rate, or a count that costs, is not
    known."""
    rates = highest_rates(agent, model, sent, kinds)
    if rates is None or (sent is None and rates.input) or (longest is None and rates.output):
        return None
    return (sent or 0) * rates.input + (longest or 0) * rates.output + rates.call


def usual_cost(agent: ModelAgent, model: str, sent: int, answered: int) -> float | None:
    """USD for so many tokens at the usual rates; None where unknown."""
    window = window_of(agent, model)
    sent = sent if window is None else min(sent, window)
    return most_usd(agent, model, sent, answered, (_INPUT, _OUTPUT))


def cost(agent: ModelAgent, model: str, used: TokenUse, listed: float | None) -> float | None:
    """USD for the tokens of a call: by the agent's own price, else LiteLLM's figure `listed`; if it
    does not find the price that it lists itself, by the highest rates."""
    price = own_price(agent, model)
    if price is None:
        return most_usd(agent, model, used.input, used.output) if listed is None else listed
    cached = price.input if price.cached is None else price.cached
    written = price.input if price.cache_write is None else price.cache_write
    fresh = used.input - used.cached - used.written
    taken = fresh * price.input + used.cached * cached + used.written * written
    return (taken + used.output * price.output) / MILLION


def listed_cost(model: str, said: object) -> float | None:
    """LiteLLM's figure for the cost of a call in USD; 0 is none, unless that is the list price."""
    if not isinstance(said, int | float) or isinstance(said, bool) or not 0 <= said <= MOST_USD:
        return None
    known = None if said else known_model(model)
    rates = known.highest() if known is not None else None
    return float(said) if said or rates == FREE else None


@dataclass(frozen=True, slots=True)
class Rates:
    """USD for a token in and out, and for what each call takes beside tokens."""

    input: float = 0.0
    output: float = 0.0
    call: float = 0.0


FREE = Rates()


def highest_rates(
    agent: ModelAgent, model: str, sent: int | None = None, kinds: tuple[str, ...] = _ALL
) -> Rates | None:
    """The highest rates that can apply to a call with so many tokens in, or with any number of
    them; None where unknown."""
    if (price := own_price(agent, model)) is not None:
        caching = (price.cached, price.cache_write) if _WRITTEN in kinds else ()
        into = max(price.input, *(usd or 0.0 for usd in caching), 0.0)
        return Rates(into / MILLION, price.output / MILLION)
    known = known_model(model)
    return None if known is None else known.highest(agent.params, sent, kinds)


OUTPUT_CAPS = ("max_completion_tokens", "max_tokens")
USUAL_ANSWER, LEAST_ANSWER = 16_384, 1_024
"""An answer with a lower cap than the least is of no use."""
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
    return limits.get("tokens") is not None or limits.get("cost_usd") is not None


def answer_caps(agent: ModelAgent, model: str, sent: int = 0) -> AnswerCaps | None:
    """The caps for an answer to `sent` tokens; None where the agent's own options have one."""
    is_said = any(agent.params.get(name) is not None for name in OUTPUT_CAPS)
    if is_said or model.partition("/")[0] in TAKES_NO_CAP:
        return None
    known = known_model(model)
    thinking = thinking_budget(agent.params)
    own = known.max_output if known else None
    usual = thinking + USUAL_ANSWER
    least = thinking + LEAST_ANSWER
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
        if type(cap := agent.params.get(name)) is int:
            return cap
    known = known_model(model)
    return known.max_output if known else None


def window_of(agent: ModelAgent, model: str) -> int | None:
    """The tokens that a model takes; None where unknown, as with headers that may widen it."""
    known = known_model(model)
    return None if known is None or "extra_headers" in agent.params else known.max_input


def thinking_budget(params: Mapping[str, Any]) -> int:
    """The tokens that the agent's options let a model think; 0 where they do not say."""
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


TABLE = "model_prices_and_context_window_backup.json"
REJECT_SCHEMAS = frozenset({"deepseek"})
"""Providers whose API refuses a JSON Schema, whatever the table says."""

_RATE = re.compile(
    rf"(?P<kind>{'|'.join((*_ALL, _CACHED))})(?P<hour>_above_1hr)?"
    r"(?:_above_(?P<above>\d+)k_tokens)?(?P<tier>_[a-z]+)?"
)


class Rate(NamedTuple):
    """One rate of an entry of the table, and when it applies."""

    kind: str
    usd: float
    above: int
    """Tokens in."""
    needs: str
    """An option, or a word in one: `1h` for a cache of an hour, or `service_tier`. The provider may
    choose the tier, so it may be any that is listed."""


@dataclass(frozen=True, slots=True)
class KnownModel:
    entry: Mapping[str, Any]
    rates: tuple[Rate, ...]
    max_input: int | None
    """Tokens that it takes; `max_tokens` may mean those of an answer, so it is not read."""
    max_output: int | None
    """Tokens of an answer, or of the prompt and the answer together."""
    native_schema: bool
    has_tools: bool
    provider: str

    def highest(
        self,
        params: Mapping[str, Any] = MappingProxyType({}),
        sent: int | None = None,
        kinds: tuple[str, ...] = _ALL,
    ) -> Rates | None:
        """The highest rates that an agent's options leave possible, if the table has some. Those
        for a cache of minutes count: a conversation that is sent again is marked for it."""
        asked = {"", *params, *(text for _, text in texts_in(params))}
        usd: dict[str, float] = {}
        for rate in self.rates:
            if rate.needs in asked and (sent is None or sent >= rate.above):
                usd[rate.kind] = max(rate.usd, usd.get(rate.kind, 0.0))
        # A model with prices for answers alone takes texts for free, such as one that makes films.
        takes_texts_free = not any(rate.kind == _INPUT for rate in self.rates)
        if _OUTPUT not in usd or not (_INPUT in usd or takes_texts_free):
            return None
        into, out = (
            max(usd.get(kind, 0.0) for kind in group if kind in kinds)
            for group in ((_INPUT, _WRITTEN), (_OUTPUT, _THOUGHT))
        )
        factor = self._factor(asked)
        is_searching = "web_search_options" in asked or self.provider == "perplexity"
        searches = self.entry.get("search_context_cost_per_query") if is_searching else None
        return Rates(into * factor, out * factor, max([0.0, *numbers_of(searches).values()]))

    def _factor(self, asked: Set[str]) -> float:
        """The factor on all rates: for speed or a place that is asked for, and the highest of those
        for the region of an address."""
        regional = {key: by for key, by in self.entry.items() if key.startswith("regional_")}
        words = numbers_of(self.entry.get("provider_specific_entry"))
        start = max([1.0, *numbers_of(regional).values()])
        return prod((by for word, by in words.items() if word in asked), start=start)


@lru_cache(maxsize=256)
def known_model(model: str) -> KnownModel | None:
    """The entry of the table for a LiteLLM model string; None where there is none."""
    table, by_lower_case = _table(), _keys_by_lower_case()
    for key in keys(model):
        entry = table.get(key) or table.get(by_lower_case.get(key.lower(), ""))
        if entry is not None and sells(model, entry.get("litellm_provider")):
            return known_entry(entry)
    return None


def known_entry(entry: Mapping[str, Any]) -> KnownModel:
    provider = str(entry.get("litellm_provider", ""))
    takes_schema = entry.get("supports_response_schema") is True
    most = entry.get("max_output_tokens", entry.get("max_tokens"))
    return KnownModel(
        entry,
        rates=tuple(_rates(entry)),
        max_input=longest if isinstance(longest := entry.get("max_input_tokens"), int) else None,
        max_output=most if isinstance(most, int) else None,
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
    """The listed model that an unlisted name most likely means."""
    if known_model(model) is not None:
        return None
    return meant_model(model) or similar_model(model, frozenset(known_providers())) or None


@cache
def _keys_by_lower_case() -> Mapping[str, str]:
    # LiteLLM ignores case.
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
        # Another version may keep it elsewhere.
        return {}
    named = {name: entry for entry in table.values() for name in entry.get("aliases") or ()}
    meant = {key: table.get(str(entry.get("alias_of"))) for key, entry in table.items()}
    return {**named, **table, **{key: entry for key, entry in meant.items() if entry is not None}}


def _rates(entry: Mapping[str, Any]) -> Iterator[Rate]:
    steps = entry.get("tiered_pricing")
    for part in (entry, *(steps if isinstance(steps, list) else ())):
        match part:
            case {"range": [int() | float() as above, *_]}:
                start = int(above)
            case _ if part is entry:
                start = 0
            case _:
                continue
        for key, usd in numbers_of(part).items():
            if (found := _RATE.fullmatch(key)) is not None:
                above = int(found["above"]) * 1_000 if found["above"] else start
                needs = "service_tier" if found["tier"] else "1h" if found["hour"] else ""
                yield Rate(found["kind"], usd, above, needs)


def numbers_of(record: object) -> dict[str, float]:
    fields = record.items() if isinstance(record, Mapping) else ()
    return {name: float(value) for name, value in fields if type(value) in (int, float)}


_BEDROCK = ("bedrock", "bedrock_converse", "bedrock_mantle")
_SOLD_AS: Mapping[str, tuple[str, ...]] = {
    "ai21_chat": ("ai21",),
    "amazon-nova": ("amazon_nova",),
    "anthropic_text": ("anthropic",),
    "azure": ("azure", "azure_text"),
    "azure_ai": ("azure_ai", "azure", "openai"),
    **dict.fromkeys(_BEDROCK, _BEDROCK),
    "cohere": ("cohere", "cohere_chat"),
    "ollama_chat": ("ollama",),
    "sagemaker_chat": ("sagemaker",),
    "vertex_ai_beta": ("vertex_ai",),
    "watsonx_text": ("watsonx",),
}
"""By prefix: the providers in the table, where those have other names."""
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
"""By prefix: how keys begin, beside the prefix itself and nothing."""
_ROUTE = (r"^(?:(?:converse|invoke|chat_completions|mantle|openai|responses|nova(?:-2)?)/)+", "")
"""The interface of a provider, which does not change the price."""
_ORDINARY = ((r"(?<=ft:)([^:]+)(?::[^:]*){3}$", r"\1"), (r"-\d{4}-\d\d-\d\d$", ""))
"""The names of fine-tuned models and of snapshots."""
_AWS = (
    (r"^.*arn:.*/", ""),
    (r"(?<=:\d):\d+k$|\[\w+\]$", ""),
    (r"^(?:(?:[a-z]+-)+\d+/|(?:global|apac|[a-z]{2}(?:-gov)?)\.(?=.+\.))", ""),
)
"""Resources, windows and places of AWS."""
_VERSIONED = ((r"$", "@latest"), (r"(?:-\d+)?@latest$", ""))
_SPELLINGS = {
    **dict.fromkeys(_BEDROCK, _AWS),
    **dict.fromkeys(("vertex_ai", "vertex_ai_beta", "gemini", "databricks"), _VERSIONED),
}
"""By prefix: what a name may have that its key has not, one behind the other."""


def keys(model: str) -> Iterator[str]:
    """The keys under which a model may be listed, the likeliest first."""
    prefix, slash, name = model.partition("/")
    if not slash:
        prefix, name = "", model
    starts = (f"{prefix}/", *_LISTED_UNDER.get(prefix, ()), "") if slash else ("",)
    yield from (start + name for start in starts)
    # Then without its route, its region and its version.
    for pattern, short in (_ROUTE, *_SPELLINGS.get(prefix, _ORDINARY)):
        name = re.sub(pattern, short, name, count=1)
        yield from (start + name for start in starts)


def sells(model: str, provider: str | None) -> bool:
    """Whether the prefix of a model, if it has one, is that of a provider in the table."""
    prefix, slash, _ = model.partition("/")
    # GitHub sells models of others under their own names.
    if not slash or provider is None or prefix == "github":
        return True
    names = _SOLD_AS.get(prefix, (prefix,))
    return any(provider == name or provider.startswith(f"{name}-") for name in names)
