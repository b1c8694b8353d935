"""Answer caps: how long answers can get, and the caps that loopkit sets where a limit needs one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from loopkit.agents.model.catalogue import known_model
from loopkit.agents.port import AnswerCaps
from loopkit.language import ModelAgent

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
