"""Prices of a model call: the most that it can cost, and what it did cost."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, Any

from loopkit.agents.model.catalogue import known_model
from loopkit.engine.events import Usage
from loopkit.language import ModelAgent, Price

if TYPE_CHECKING:
    from loopkit.agents.port import Request

MILLION = 1_000_000
OUTPUT_CAPS = ("max_completion_tokens", "max_tokens")
ROLE_TOKENS = 16
"""Tokens that a provider adds for each message."""
SCHEMA_TOKENS = 1_024
"""Tokens that a provider adds to ask for data of a schema."""


@dataclass(frozen=True, slots=True)
class Used:
    """The tokens of one call, as its provider counts them."""

    input: int
    """The cached ones included."""
    output: int
    cached: int = 0

    @property
    def total(self) -> int:
        return self.input + self.output


def quote(agent: ModelAgent, request: Request) -> Usage:
    """The most that a call can cost: what is sent at its most, the answer as long as allowed.

    The cost is None where no price or no longest answer is known; then tokens count the input
    alone.
    """
    sent, longest = _most_sent(agent, request), output_cap(agent, request.model)
    return Usage(
        agent_calls=1,
        tokens=sent + (longest or 0),
        cost_usd=_dearest(agent, request.model, sent, longest),
    )


def _most_sent(agent: ModelAgent, request: Request) -> int:
    """The tokens that can be paid of a request: what the model does not take is refused."""
    window = _window(agent, request.model)
    sent = input_bound(request)
    return sent if window is None else min(sent, window)


def input_bound(request: Request) -> int:
    """A number of tokens that no tokenizer exceeds on this request."""
    texts = sum(len(message.content.encode()) + ROLE_TOKENS for message in request.messages)
    if request.schema is None:
        return texts
    return texts + SCHEMA_TOKENS + 2 * len(json.dumps(request.schema).encode())


def output_cap(agent: ModelAgent, model: str) -> int | None:
    """The longest answer in tokens: what the agent's `params` allow, else what the model can."""
    for name in OUTPUT_CAPS:
        cap = agent.params.get(name)
        if isinstance(cap, int) and not isinstance(cap, bool):
            return cap
    known = known_model(model)
    return known.max_output if known else None


def dearest_call(agent: ModelAgent) -> float | None:
    """USD that one call costs at most, whatever is sent: the dearest rung's whole window in, the
    longest answer out; None where that is not known."""
    costs = [
        _dearest(agent, model, _window(agent, model), output_cap(agent, model))
        for model in agent.model
    ]
    known = [cost for cost in costs if cost is not None]
    return max(known) if len(known) == len(costs) else None


def _window(agent: ModelAgent, model: str) -> int | None:
    """The tokens that a model takes. Headers of one's own can ask for a window that no list has."""
    known = known_model(model)
    return None if known is None or "extra_headers" in agent.params else known.max_input


def is_priced(agent: ModelAgent, model: str) -> bool:
    """Whether the most that a call costs can be told before it is made."""
    return _dearest(agent, model, 1, output_cap(agent, model)) is not None


def _dearest(agent: ModelAgent, model: str, sent: int | None, longest: int | None) -> float | None:
    """USD for so many tokens in and out; None where a count that costs, or a rate, is unknown."""
    rates = _dearest_rates(agent, model)
    parts = [_part(sent, rates[0]), _part(longest, rates[1])] if rates else [None]
    known = [part for part in parts if part is not None]
    return sum(known) if len(known) == len(parts) else None


def _part(tokens: int | None, rate: float) -> float | None:
    if rate == 0:
        return 0.0
    return None if tokens is None else tokens * rate


def _dearest_rates(agent: ModelAgent, model: str) -> tuple[float, float] | None:
    """USD for one token in and one out, at the dearest rate that can apply."""
    match agent.price:
        case None:
            known = known_model(model, service_tier="service_tier" in agent.params)
            if known is None or known.dearest_input is None or known.dearest_output is None:
                return None
            return known.dearest_input, known.dearest_output
        case Price() as price:
            return max(price.input, price.cached or 0.0) / MILLION, price.output / MILLION
        case rate:
            return rate / MILLION, rate / MILLION


def cost(agent: ModelAgent, used: Used, listed: float | None) -> float | None:
    """USD for the tokens of a call: by the agent's own price, else what LiteLLM makes of it.

    LiteLLM says 0 where it can't tell; that is only believed of a model whose list price is 0.
    """
    match agent.price:
        case None:
            return listed
        case Price() as price:
            cached = price.input if price.cached is None else price.cached
            fresh = used.input - used.cached
            total = fresh * price.input + used.cached * cached + used.output * price.output
            return total / MILLION
        case rate:
            return used.total * rate / MILLION


def least_cost(agent: ModelAgent, model: str, used: Used) -> float:
    """USD that so many tokens cost at the cheapest list prices that can apply; 0 is unknown."""
    known = known_model(model, service_tier="service_tier" in agent.params)
    if known is None:
        return 0.0
    fresh = (used.input - used.cached) * known.cheapest_input
    return fresh + used.cached * known.cheapest_cached + used.output * known.cheapest_output


def listed_cost(model: str, hidden: Mapping[str, Any], least: float = 0.0) -> float | None:
    """What LiteLLM says that a call cost, or None where it does not know.

    A server can make it say anything: what is below `least`, by the list prices, is not believed.
    """
    said = hidden.get("response_cost")
    if not isinstance(said, int | float) or isinstance(said, bool) or not isfinite(said):
        return None
    if said > 0:
        return max(float(said), least)
    known = known_model(model)
    is_free = known is not None and known.dearest_input == 0 and known.dearest_output == 0
    return 0.0 if is_free else None
