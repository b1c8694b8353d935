"""From LiteLLM's response to a reply: its text, what it used and what it cost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from loopkit.agents.model.pricing import Used, cost, listed_cost
from loopkit.agents.port import AgentError, Reply, Request
from loopkit.definition import ModelAgent
from loopkit.events import Usage


def read_reply(agent: ModelAgent, request: Request, response: Any, most: Usage) -> Reply:
    """The reply in a response; no choices are an empty one.

    Where the provider does not say what it used, the reply counts as `most`, which was reserved.
    Raises AgentError where the provider or the model refused to answer.
    """
    used = _used(getattr(response, "usage", None))
    if used is None:
        tokens, usd = most.tokens, most.cost_usd
    else:
        hidden: Mapping[str, Any] = getattr(response, "_hidden_params", None) or {}
        tokens, usd = used.total, cost(agent, used, listed_cost(request.model, hidden))
    choice = next(iter(getattr(response, "choices", None) or ()), None)
    message = getattr(choice, "message", None)
    finish = getattr(choice, "finish_reason", None)
    if reason := _refusal(message, finish):
        raise AgentError("fatal", reason, cost_usd=usd, tokens=tokens)
    return Reply(
        _text(getattr(message, "content", None)),
        cut_off=finish == "length",
        model=str(getattr(response, "model", None) or request.model),
        tokens=tokens,
        cost_usd=usd,
    )


def _refusal(message: Any, finish: object) -> str:
    if finish == "content_filter":
        return "the provider's content policy withheld the answer; change the prompt or the model"
    said = getattr(message, "refusal", None)
    return f"the model refused to answer: {said}" if isinstance(said, str) and said else ""


def _text(content: object) -> str:
    """The text of a message, which may also come in parts."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    texts = (part.get("text") for part in parts if isinstance(part, Mapping))
    return "".join(text for text in texts if isinstance(text, str))


def _used(usage: Any) -> Used | None:
    """The tokens of a call; None where the provider did not count them."""
    sent, answered = _count(usage, "prompt_tokens"), _count(usage, "completion_tokens")
    if sent + answered == 0:
        return None
    details = getattr(usage, "prompt_tokens_details", None)
    cached = min(_count(details, "cached_tokens"), sent)
    return Used(input=sent, output=answered, cached=cached)


def _count(record: Any, name: str) -> int:
    value = getattr(record, name, None)
    return value if isinstance(value, int) and value > 0 else 0
