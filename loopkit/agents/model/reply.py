"""LiteLLM's response → a reply: its text, its usage and its cost."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from loopkit.agents.model.answer_caps import OUTPUT_CAPS
from loopkit.agents.model.chat_answer import text_of_content
from loopkit.agents.model.errors import error_of
from loopkit.agents.model.kept_thoughts import thoughts_to_keep
from loopkit.agents.model.pricing import Used, cost, least_cost, listed_cost, quote
from loopkit.agents.model.received import MOST_TOKENS
from loopkit.agents.model.tool_calls import calls_in
from loopkit.agents.model.tool_support import offered_tools
from loopkit.agents.port import CUT_OFF, AgentError, Reply, Request
from loopkit.engine.events import TokenUse
from loopkit.language import ModelAgent
from loopkit.text import plural

_THOUGHT = re.compile(r"([<\[])((?:think|thinking|thought|reasoning)[>\]])", re.IGNORECASE)
"""The mark that begins a thought in a text; the mark with a slash ends it."""
BROKEN_OFF = {"message": "the answer ended in an error"}
MISCALLS = ("MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL")
"""The reasons by which Gemini ends an answer that it discards for a bad tool call."""
THOUGHTS = ("reasoning_content", "thinking_blocks")
"""The fields in which LiteLLM puts what a model thought."""


def read_reply(agent: ModelAgent, request: Request, response: Any) -> Reply:
    """The reply in a response, with its calls of offered tools; it is empty without choices.

    If the provider does not count the tokens, the reply counts as the maximum that was reserved.
    Raises AgentError where the provider or the model refused to answer.
    """
    choice = next(iter(getattr(response, "choices", None) or ()), None)
    message = getattr(choice, "message", None)
    finish = getattr(choice, "finish_reason", None)
    text = text_of_content(getattr(message, "content", None))
    offered = offered_tools(agent, request)
    calls = calls_in(message, offered)
    used = _tokens_used(getattr(response, "usage", None), is_silent=not text and not calls)
    if used is None:
        most = quote(agent, request)
        tokens, usd = most.tokens, most.cost_usd
    else:
        hidden: Mapping[str, Any] = getattr(response, "_hidden_params", None) or {}
        listed = listed_cost(request.model, hidden, least_cost(agent, request.model, used))
        tokens, usd = used.total, cost(agent, request.model, used, listed)
    if record := _error_inside(choice):
        raise error_of(record, tokens=tokens, cost_usd=usd)
    if not calls and (miscall := _native_finish(choice)) in MISCALLS:
        raise AgentError(
            "content", f"the model called a tool wrongly: {miscall}", cost_usd=usd, tokens=tokens
        )
    if finish == "length" and _is_capped(request, used):
        reason = _cap_message(request)
        is_charged = used is None
        raise AgentError(
            "fatal", reason, cost_usd=usd, tokens=tokens, charged=is_charged, capped=True
        )
    may_be_thought = finish == "length" and not calls
    thought = (
        _all_thought_message(agent, request.agent, message, text, used) if may_be_thought else ""
    )
    if reason := thought or _refusal(message, finish):
        raise AgentError("fatal", reason, cost_usd=usd, tokens=tokens)
    return Reply(
        text,
        cut_off=finish == "length",
        tool_calls=calls,
        kept=thoughts_to_keep(message, request.model) if calls else {},
        has_no_tools=bool(request.tools) and not offered,
        model=str(getattr(response, "model", None) or request.model),
        tokens=tokens,
        counted=None if used is None else _token_use(used),
        cost_usd=usd,
        held=used is None,
    )


def _error_inside(choice: Any) -> Mapping[str, Any]:
    """The error that broke off the answer, which OpenRouter reports inside it."""
    record = _own_fields(choice).get("error")
    if isinstance(record, Mapping):
        return record
    return BROKEN_OFF if _native_finish(choice) == "error" else {}


def _native_finish(choice: Any) -> object:
    """Why the answer ended, in the provider's own word: LiteLLM turns many into `stop`."""
    return _own_fields(choice).get("native_finish_reason")


def _own_fields(part: Any) -> Mapping[str, Any]:
    """The fields of the provider's own, which LiteLLM keeps apart."""
    own = getattr(part, "provider_specific_fields", None)
    return own if isinstance(own, Mapping) else {}


def _refusal(message: Any, finish: object) -> str:
    if finish == "content_filter":
        return "the provider's content policy withheld the answer; change the prompt or the model"
    said = _own_fields(message).get("refusal") or getattr(message, "refusal", None)
    return f"the model refused to answer: {said}" if isinstance(said, str) and said else ""


def _is_capped(request: Request, used: Used | None) -> bool:
    """Whether a cut-off answer ended at our cap, not at the longest answer of the model."""
    if request.cap is None or request.caps is None:
        return False
    most = request.caps.most
    return most is None or request.cap < most or used is None or used.output < most


def _cap_message(request: Request) -> str:
    start = f"{CUT_OFF} {plural(request.cap or 0, 'token', ',')}, the longest that "
    if request.caps is not None and request.cap == request.caps.usual:
        return start + "is asked for where a limit is set and `params:` has no `max_tokens`"
    return start + "the limits of the run left room for"


def _all_thought_message(
    agent: ModelAgent, name: str, message: Any, text: str, used: Used | None
) -> str:
    """The message for a cut-off answer that is nothing but thoughts; empty for any other.

    Its author can't correct that: it would think as long again, and be paid again.
    """
    answered = used.output if used else 0
    thoughts = (getattr(message, place, None) for place in THOUGHTS)
    # Some providers hide the thoughts, but the tokens were spent on something.
    is_thought = any(thoughts) or (answered > 0 and not text)
    visible = text.strip()
    opened = _THOUGHT.match(visible)
    is_open = opened is not None and f"{opened[1]}/{opened[2]}" not in visible
    if not is_open and (visible or not is_thought):
        return ""
    spent = f"all {plural(answered, 'token', ',')}" if answered else "all tokens"
    cap = next((option for option in OUTPUT_CAPS if option in agent.params), "max_tokens")
    remedy = f"raise `{cap}`, in `params:` or by `--param {name}.{cap}=N` when you resume"
    return f"{spent} went into reasoning, none into the answer; {remedy}"


def _tokens_used(usage: Any, *, is_silent: bool) -> Used | None:
    """The tokens of a call; None where the provider did not count all of them."""
    sent, answered = _count(usage, "prompt_tokens"), _count(usage, "completion_tokens")
    # There is no call without a prompt, and no text without a token.
    if not sent or answered is None or not (answered or is_silent):
        return None
    details = getattr(usage, "prompt_tokens_details", None)
    cached = min(_count(details, "cached_tokens") or 0, sent)
    written = min(_count(details, "cache_creation_tokens") or 0, sent - cached)
    # Some providers count thoughts in the total alone.
    unnamed = (_count(usage, "total_tokens") or 0) - sent
    return Used(input=sent, output=max(answered, unnamed), cached=cached, written=written)


def _token_use(used: Used) -> TokenUse:
    return TokenUse(input=used.input, output=used.output, cached=used.cached, written=used.written)


def _count(record: Any, name: str) -> int | None:
    """A token count of the provider; None where it gives no plausible one."""
    value = getattr(record, name, None)
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value if 0 <= value <= MOST_TOKENS else None
