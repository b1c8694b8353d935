"""How long answers can get, and how long those are that loopkit asks for where a limit needs it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from loopkit.agents.model.catalogue import known_model
from loopkit.agents.port import AnswerCaps
from loopkit.language import ModelAgent

OUTPUT_CAPS = ("max_completion_tokens", "max_tokens")
USUAL_ANSWER = 16_384
LEAST_ANSWER = 1_024
"""An answer that is shorter by order is of no use."""
TAKES_NO_CAP = ("v0", "morph", "fal_ai", "scaledown")
"""Providers that LiteLLM refuses to send a longest answer to."""
_BYTES_PER_TOKEN = 2
"""There are more in a token of nearly every text."""
_BUDGETS = ("budget_tokens", "budgetTokens", "thinking_budget", "thinkingBudget")
_EFFORTS = {
    "minimal": 128, "low": 1_024, "medium": 2_048, "high": 4_096, "xhigh": 8_192, "max": 16_384,
}  # fmt: skip
"""The budgets that LiteLLM gives a model for an effort in words."""


def needs_caps(limits: Mapping[str, Any]) -> bool:
    """Whether limits can only be kept where the longest answer is known."""
    return limits.get("tokens") is not None or limits.get("cost_usd") is not None


def answer_caps(agent: ModelAgent, model: str, sent: int = 0) -> AnswerCaps | None:
    """How long an answer to so many tokens may be; none where the agent's own options say it.

    It may be no longer for more tokens than for fewer.
    """
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


def longest_answer(agent: ModelAgent, model: str, *, is_limited: bool) -> int | None:
    """The tokens that no answer exceeds, in a run with limits that need caps or without."""
    caps = answer_caps(agent, model) if is_limited else None
    return output_cap(agent, model) if caps is None else caps.usual


def output_cap(agent: ModelAgent, model: str) -> int | None:
    """The longest answer in tokens: what the agent's `params` allow, else what the model can."""
    for name in OUTPUT_CAPS:
        cap = agent.params.get(name)
        if isinstance(cap, int) and not isinstance(cap, bool):
            return cap
    known = known_model(model)
    return known.max_output if known else None


def window_of(agent: ModelAgent, model: str) -> int | None:
    """The tokens that a model takes. Headers of one's own can ask for a window that no list has."""
    known = known_model(model)
    return None if known is None or "extra_headers" in agent.params else known.max_input


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
