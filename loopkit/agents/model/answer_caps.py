"""How long an answer loopkit asks for, where a limit needs a maximum and nobody has said one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from loopkit.agents.model.catalogue import known_model
from loopkit.agents.model.pricing import (
    OUTPUT_CAPS,
    ROLE_TOKENS,
    input_bound,
    most,
    output_cap,
    window_of,
)
from loopkit.engine.events import Usage
from loopkit.language import ModelAgent

if TYPE_CHECKING:
    from loopkit.agents.port import Request

USUAL_ANSWER = 16_384
LEAST_ANSWER = 1_024
"""An answer that is shorter by order is of no use."""
TAKES_NO_CAP = ("v0", "morph", "fal_ai")
"""Providers that LiteLLM refuses to send a longest answer to."""
_BYTES_PER_TOKEN = 2
"""There are more in a token of nearly every text."""
_BUDGETS = ("budget_tokens", "budgetTokens", "thinking_budget", "thinkingBudget")
_EFFORTS = {
    "minimal": 128, "low": 1_024, "medium": 2_048, "high": 4_096, "xhigh": 8_192, "max": 16_384,
}  # fmt: skip
"""The budgets that LiteLLM gives a model for an effort in words."""


class AnswerCaps(NamedTuple):
    """How many tokens an answer may have, where loopkit is the one to say it."""

    usual: int
    least: int
    """Where a limit leaves no room for more: above what the model may think."""
    most: int | None
    """What the model can give; none where that is not known."""


def answer_caps(agent: ModelAgent, request: Request) -> AnswerCaps | None:
    """How long an answer of a call may be; none where the agent's own options say it."""
    return _caps(agent, request.model, input_bound(request))


def _caps(agent: ModelAgent, model: str, sent: int) -> AnswerCaps | None:
    is_said = any(agent.params.get(name) is not None for name in OUTPUT_CAPS)
    if is_said or model.partition("/")[0] in TAKES_NO_CAP:
        return None
    known, thinking = known_model(model), thinking_budget(agent.params)
    own = known.max_output if known else None
    usual, least = thinking + USUAL_ANSWER, thinking + LEAST_ANSWER
    if (window := window_of(agent, model)) is not None:
        # What is sent and what is answered may have to share it.
        usual = min(usual, max(least, window - sent // _BYTES_PER_TOKEN))
    if own is not None:
        usual, least = min(usual, own), min(least, own)
    return AnswerCaps(usual=usual, least=least, most=own)


def least_call(agent: ModelAgent, model: str) -> Usage:
    """What a call takes at most that says next to nothing and gets the shortest answer."""
    system = agent.system_prompt
    sent = ROLE_TOKENS + (len(system.encode()) + ROLE_TOKENS if system else 0)
    caps = _caps(agent, model, sent)
    return most(agent, model, sent, caps.least if caps else output_cap(agent, model))


def thinking_budget(params: Mapping[str, Any]) -> int:
    """The tokens that a model may think, by the agent's options; 0 where these say nothing."""
    return max((tokens for tokens in _budgets(params)), default=0)


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
