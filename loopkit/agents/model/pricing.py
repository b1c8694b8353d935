"""Prices of a model call: the most that it can cost, and what it did cost."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from loopkit.agents.model.answer_caps import answer_caps, longest_answer, output_cap, window_of
from loopkit.agents.model.catalogue import known_model, near_model
from loopkit.agents.model.rates import Dearest, Options
from loopkit.engine.events import Usage
from loopkit.engine.usage import MOST_USD
from loopkit.language import Agent, ModelAgent, Price
from loopkit.language.agents.agent import AgentBase

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
    sent = _billable_input(agent, request)
    longest = output_cap(agent, request.model) if request.cap is None else request.cap
    return usage_bound(agent, request.model, sent, longest)


def usage_bound(agent: ModelAgent, model: str, sent: int, longest: int | None) -> Usage:
    """The most that so many tokens in and out can cost."""
    usd = _dearest(agent, model, sent, longest)
    return Usage(agent_calls=1, tokens=sent + (longest or 0), cost_usd=usd)


def _billable_input(agent: ModelAgent, request: Request) -> int:
    """The tokens of a request that can be billed: a model refuses more than its window."""
    window = window_of(agent, request.model)
    sent = input_bound(request)
    return sent if window is None else min(sent, window)


def input_bound(request: Request) -> int:
    """A number of tokens that no tokenizer exceeds on this request."""
    texts = sum(map(_message_bound, request.messages))
    tools = sum(
        ROLE_TOKENS + 2 * _json_bytes([t.name, t.description, t.schema]) for t in request.tools
    )
    schema = 0 if request.schema is None else SCHEMA_TOKENS + 2 * _json_bytes(request.schema)
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


def _json_bytes(data: object) -> int:
    return len(json.dumps(data).encode())


def least_call(agent: ModelAgent, model: str) -> Usage:
    """The most that the smallest call can cost: next to no prompt, and the shortest answer."""
    system = agent.system_prompt
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
    return 0.0 if agent.price is None and _is_local(agent, model) else agent.price


def _is_local(agent: ModelAgent, model: str) -> bool:
    provider = model.partition("/")[0]
    if provider not in LOCAL or agent.api_key_env is not None:
        return False
    return not os.environ.get(f"{provider.removesuffix('_chat').upper()}_API_KEY")


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
    match price_of(agent, model):
        case None:
            known = known_model(model)
            rates = known.rates.usual(_options(agent), sent) if known is not None else None
            return (
                None if rates is None else sent * rates.input + answered * rates.output + rates.call
            )
        case _:
            return cost(agent, model, Used(sent, answered), None)


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
    return 0.0 if rates is not None and rates.is_free else None
