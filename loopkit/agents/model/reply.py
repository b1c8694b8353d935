"""LiteLLM's response → a reply: its text, its tool calls, its usage and its cost.

LiteLLM refuses a whole answer for a part that nobody reads, so an answer is also read without it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from loopkit.agents.model.errors import error_of
from loopkit.agents.model.failure_cause import is_count
from loopkit.agents.model.pricing import (
    OUTPUT_CAPS,
    cost,
    known_model,
    listed_cost,
    provider_of,
    quote,
)
from loopkit.agents.port import CUT_OFF, AgentError, Reply, Request, Tool
from loopkit.engine.payloads import TokenUse, ToolCall
from loopkit.language.agents.model import ModelAgent
from loopkit.text import plural
from loopkit.text.thoughts import set_apart

MISCALLS = ("MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL")
"""The reasons by which Gemini ends an answer that it discards for a bad tool call."""


def read_reply(agent: ModelAgent, request: Request, response: Any) -> Reply:
    """The reply in a response; raises AgentError where the provider or the model refused to answer.

    If the provider does not count the tokens, the reply counts as the maximum that was reserved.
    """
    choice = next(iter(getattr(response, "choices", None) or ()), None)
    message = getattr(choice, "message", None)
    finish = getattr(choice, "finish_reason", None)
    text = text_of_content(getattr(message, "content", None))
    offered = offered_tools(agent, request)
    calls = calls_in(message, offered)
    usage = getattr(response, "usage", None)
    used = _tokens_used(usage, is_silent=not text and not calls)
    if used is None:
        most = quote(agent, request)
        tokens, usd = most.tokens, most.cost_usd
    else:
        hidden: Mapping[str, Any] = getattr(response, "_hidden_params", None) or {}
        listed = listed_cost(request.model, hidden.get("response_cost"))
        tokens = used.input + used.output
        usd = cost(agent, request.model, used, listed)
    own = _own_fields(choice)
    # LiteLLM turns many endings into `stop`.
    error = own.get("error")
    ending = own.get("native_finish_reason")
    if ending == "error" and not isinstance(error, Mapping):
        error = {"message": "the answer ended in an error"}
    if isinstance(error, Mapping) and error:
        # OpenRouter reports inside it what broke off an answer.
        raise error_of(error, tokens=tokens, cost_usd=usd)
    if not calls and ending in MISCALLS:
        wrong = f"the model called a tool wrongly: {ending}"
        raise AgentError("content", wrong, cost_usd=usd, tokens=tokens)
    if finish == "length" and (reason := _cap_message(request, used)):
        is_held = used is None
        raise AgentError("fatal", reason, cost_usd=usd, tokens=tokens, charged=is_held, capped=True)
    thought = ""
    if finish == "length" and not calls:
        thought = _all_thought_message(agent, request.agent, message, text, used)
    if reason := thought or _refusal(message, finish):
        raise AgentError("fatal", reason, cost_usd=usd, tokens=tokens)
    return Reply(
        text,
        thoughts=text_of_content(getattr(message, PLAIN, None)),
        cut_off=finish == "length",
        tool_calls=calls,
        kept=thoughts_to_keep(message, request.model) if calls else {},
        has_no_tools=bool(request.tools) and not offered,
        model=str(getattr(response, "model", None) or request.model),
        tokens=tokens,
        counted=used,
        cost_usd=usd,
        held=used is None,
        prompt_cut=_cut_message(request, usage) if used else "",
    )


MANY_WORDS = 1_000
"""No server cuts a prompt of fewer words."""


def _cut_message(request: Request, usage: Any) -> str:
    """What is wrong where a server has counted fewer tokens than a prompt has words.

    No tokenizer that we measured (OpenAI's, Claude's, DeepSeek's) has a token with letters or
    digits of two words.
    """
    details = getattr(usage, "prompt_tokens_details", None)
    cached = ("cached_tokens", "cache_creation_tokens")
    read = (_count(usage, "prompt_tokens") or 0) + sum(_count(details, n) or 0 for n in cached)
    texts = (word for message in request.messages for word in message.content.split())
    words = sum(any(map(str.isalnum, word)) for word in texts)
    if words < MANY_WORDS or read >= words:
        return ""
    window = 1 << (2 * words).bit_length()
    is_ollama = provider_of(request.model).startswith("ollama")
    remedy = f"`params: {{num_ctx: {window}}}`" if is_ollama else "a longer context of the server"
    found = f"`{request.model}` has read {read:,} tokens of a prompt with {words:,} words"
    return f"{found}, so that the rest was cut off: it needs {remedy}, or a shorter prompt"


def _own_fields(part: Any) -> Mapping[str, Any]:
    """The fields of the provider's own, which LiteLLM keeps apart."""
    own = getattr(part, "provider_specific_fields", None)
    return own if isinstance(own, Mapping) else {}


def _refusal(message: Any, finish: object) -> str:
    if finish == "content_filter":
        return "the provider's content policy withheld the answer; change the prompt or the model"
    said = _own_fields(message).get("refusal") or getattr(message, "refusal", None)
    return f"the model refused to answer: {said}" if isinstance(said, str) and said else ""


def _cap_message(request: Request, used: TokenUse | None) -> str:
    """Where a cut-off answer ended at our cap, and not at the longest answer of the model."""
    cap, caps = request.cap, request.caps
    if cap is None or caps is None:
        return ""
    if caps.most is not None and used is not None and caps.most <= min(cap, used.output):
        return ""
    start = f"{CUT_OFF} {plural(cap, 'token', ',')}, the longest that "
    if cap == caps.usual:
        return start + "is asked for where a limit is set and `params:` has no `max_tokens`"
    return start + "the limits of the run left room for"


def _all_thought_message(
    agent: ModelAgent, name: str, message: Any, text: str, used: TokenUse | None
) -> str:
    """The message for a cut-off answer that is nothing but thoughts. Its author can't correct that:
    it would think as long again, and be paid again."""
    answered = used.output if used else 0
    thoughts = (getattr(message, place, None) for place in (PLAIN, *SEALED))
    # Some providers hide the thoughts, but the tokens were spent on something.
    visible = set_apart(text, agent.thoughts)[0]
    is_thought = any(thoughts) or (answered > 0 and not text) or visible != text
    if visible.strip() or not is_thought:
        return ""
    spent = f"all {plural(answered, 'token', ',')}" if answered else "all tokens"
    cap = next((option for option in OUTPUT_CAPS if option in agent.params), "max_tokens")
    remedy = f"raise `{cap}`, in `params:` or by `--param {name}.{cap}=N` when you resume"
    return f"{spent} went into reasoning, none into the answer; {remedy}"


def _tokens_used(usage: Any, *, is_silent: bool) -> TokenUse | None:
    """The tokens of a call, if the provider counted all of them."""
    sent = _count(usage, "prompt_tokens")
    answered = _count(usage, "completion_tokens")
    # There is no call without a prompt, and no text without a token.
    if not sent or answered is None or not (answered or is_silent):
        return None
    details = getattr(usage, "prompt_tokens_details", None)
    cached = min(_count(details, "cached_tokens") or 0, sent)
    written = min(_count(details, "cache_creation_tokens") or 0, sent - cached)
    unnamed = (_count(usage, "total_tokens") or 0) - sent
    return TokenUse(input=sent, output=max(answered, unnamed), cached=cached, written=written)


def _count(record: Any, name: str) -> int | None:
    value = getattr(record, name, None)
    return value if is_count(value) else None


def text_of_content(content: object) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    texts = (part.get("text") for part in parts if isinstance(part, Mapping))
    return "".join(text for text in texts if isinstance(text, str))


def chat_answer(record: Mapping[str, Any], *, has_tools: bool = False) -> dict[str, Any] | None:
    """The parts of an answer that matter, in the same form; None where it can't be read.

    Calls of tools are an answer only where the model was offered tools.
    """
    match record:
        case {"choices": [{"message": dict() as message} as choice, *_]}:
            content = _content(message, has_tools=has_tools)
        case _:
            return None
    if content is None and choice.get("finish_reason") != "length":
        return None
    thoughts = _texts(message, "reasoning_content", "reasoning")
    answer = {"role": "assistant", "content": None, **thoughts, **(content or {})}
    kept = {"index": 0, "message": answer, **_texts(choice, "finish_reason")}
    if isinstance(choice.get("error"), Mapping):
        kept["error"] = choice["error"]
    usage = record.get("usage") or {}
    counts = _numbers(usage)
    if counts and (details := _numbers(usage.get("prompt_tokens_details"))):
        counts["prompt_tokens_details"] = details
    return {**_texts(record, "model"), "choices": [kept], "usage": counts}


def _content(message: Mapping[str, Any], *, has_tools: bool) -> dict[str, Any] | None:
    """The text, the refusal or the calls of tools, if a message has one of them."""
    if has_tools and (calls := _calls(message.get("tool_calls"))):
        return {"content": text_of_content(message.get("content")) or None, "tool_calls": calls}
    match message:
        case {"refusal": str() as refusal} if refusal:
            return {"refusal": refusal}
        case {"tool_calls": [{"function": {"name": "json_tool_call", "arguments": str() as text}}]}:
            return {"content": text}
    content = message.get("content")
    text = text_of_content(content)
    is_empty = content == "" and not message.get("tool_calls")
    return {"content": text} if text or is_empty else None


def _calls(calls: object) -> list[dict[str, Any]]:
    readable = []
    for call in calls if isinstance(calls, list) else ():
        match call:
            case {"function": {"name": str() as name} as called}:
                arguments = called.get("arguments")
                text = arguments if isinstance(arguments, str) else json.dumps(arguments)
                function = {"name": name, "arguments": text}
                readable.append({**_texts(call, "id"), "type": "function", "function": function})
    return readable


def _texts(record: Mapping[str, Any], *names: str) -> dict[str, str]:
    return {name: text for name in names if isinstance(text := record.get(name), str)}


def _numbers(record: object) -> dict[str, Any]:
    numbers = record.items() if isinstance(record, Mapping) else ()
    return {name: number for name, number in numbers if is_count(number)}


NO_TOOLS = frozenset({"ollama", "replicate"})
"""Providers to which LiteLLM passes no tools: it leaves them out, or puts them into the prompt and
makes every answer JSON. Ollama takes them under `ollama_chat/`."""
NO_CHOICE = frozenset({"ollama_chat"})
"""Providers that know no `tool_choice`, and call whatever tool they are sent."""
TAKE_BOTH = frozenset({"anthropic", "azure", "mistral", "openai"})
"""Providers that take a JSON Schema beside tools."""
_GEMINI = re.compile(r"\bgemini-(?:[3-9]|\d\d)")
"""Those that take both."""
SCHEMA_AS_TOOL = frozenset({
    "anthropic", "azure", "bedrock", "bedrock_converse", "bedrock_mantle", "databricks", "groq",
    "vertex_ai", "vertex_ai_beta",
})  # fmt: skip
"""Providers for which LiteLLM makes a schema a tool that some models have to call, and no other."""


def offered_tools(agent: ModelAgent, request: Request) -> Sequence[Tool]:
    """The tools that a request offers; none where the model can't call any."""
    return request.tools if has_tools(agent, request.model) else ()


def has_tools(agent: ModelAgent, model: str) -> bool:
    """Whether a model can call tools, which one that is not listed is assumed to."""
    if agent.tool_use == "runner" or provider_of(model) in NO_TOOLS:
        return False
    known = known_model(model)
    return agent.tool_use == "native" or known is None or known.has_tools


def takes_schema_too(agent: ModelAgent, model: str) -> bool:
    provider, known = provider_of(model), known_model(model)
    is_new_gemini = provider in ("gemini", "vertex_ai") and _GEMINI.search(model)
    if known is not None and known.native_schema and (provider in TAKE_BOTH or is_new_gemini):
        return True
    return agent.structured == "native" and provider not in SCHEMA_AS_TOOL


def tool_arguments(agent: ModelAgent, request: Request) -> dict[str, Any]:
    tools = offered_tools(agent, request)
    is_silent = not request.may_call_tools
    if not tools or (is_silent and provider_of(request.model) in NO_CHOICE):
        return {}
    choice = {"tool_choice": "none"} if is_silent else {}
    return {"tools": [_function(tool) for tool in tools], **choice}


def _function(tool: Tool) -> Mapping[str, Any]:
    # A copy: LiteLLM removes the words from a schema that a provider does not know.
    schema = json.loads(json.dumps(tool.schema))
    described = {"description": tool.description} if tool.description else {}
    return {"type": "function", "function": {"name": tool.name, **described, "parameters": schema}}


NOTHING_GIVEN = ("", "null", '""')
"""What models send for the arguments of a tool that needs none."""
JSON_CALL = "json_tool_call"
"""The tool that LiteLLM has a model call with an answer of a JSON Schema."""


def calls_in(message: Any, offered: Sequence[Tool]) -> tuple[ToolCall, ...]:
    """The calls of a model that was offered tools, each with a unique id: the provider's, which may
    hold something that it wants back."""
    names = {tool.name for tool in offered}
    calls: dict[str, ToolCall] = {}
    made = getattr(message, "tool_calls", None)
    for call in made if names and isinstance(made, list) else ():
        function = getattr(call, "function", None)
        own = getattr(call, "id", None)
        name = getattr(function, "name", None)
        given = getattr(function, "arguments", None)
        if not isinstance(name, str) or name in {"", JSON_CALL} - names:
            continue
        text = (given if isinstance(given, str) else json.dumps(given or {})).strip()
        own = own if isinstance(own, str) else ""
        while not own or own in calls:
            own = f"{own or 'call'}_{len(calls)}"
        calls[own] = ToolCall(id=own, name=name, arguments="{}" if text in NOTHING_GIVEN else text)
    return tuple(calls.values())


ORIGIN = "from"
"""The key that names the sender of the kept thoughts."""
SEALED: Mapping[str, tuple[str, ...]] = {
    "thinking_blocks": ("signature", "data"),
    "reasoning_items": ("encrypted_content",),
}
"""The fields in which LiteLLM puts thoughts, and what those have that can be returned: others,
providers take for text of ours, or look for what they have stored themselves."""
PLAIN = "reasoning_content"
WANT_PLAIN = frozenset({"deepseek", "moonshot", "ollama_chat", "zai"})
"""Providers whose models continue from their plain thoughts."""
DETAILS = "reasoning_details"
"""The thoughts of OpenRouter, with the signatures of the provider behind it."""
SELL_CLAUDE = frozenset({
    "anthropic", "bedrock", "bedrock_converse", "vertex_ai", "vertex_ai_beta",
    "vertex_ai-anthropic_models",
})  # fmt: skip
"""Providers that can read each other's thoughts of Claude."""


def thoughts_to_keep(message: Any, model: str) -> dict[str, Any]:
    """The thoughts in a message that its sender wants back with the results of tools, and who that
    is: nobody else can read them."""
    kept: dict[str, Any] = {ORIGIN: _origin(model)}
    for name, seals in SEALED.items():
        parts = _plain_list(getattr(message, name, None))
        if sealed := [part for part in parts if any(part.get(seal) for seal in seals)]:
            kept[name] = sealed
    if details := _plain_list(_own_fields(message).get(DETAILS)):
        kept[DETAILS] = details
    thought = getattr(message, PLAIN, None)
    if provider_of(model) in WANT_PLAIN and isinstance(thought, str):
        kept[PLAIN] = thought
    return kept


def is_from(kept: Mapping[str, Any], model: str) -> bool:
    return kept.get(ORIGIN) == _origin(model)


def fields_to_return(kept: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in kept.items() if name != ORIGIN}


def _origin(model: str) -> str:
    provider = provider_of(model)
    return "claude" if "claude" in model.lower() and provider in SELL_CLAUDE else provider


def _plain_list(value: object) -> list[dict[str, Any]]:
    """The records of a list as storable JSON; empty for anything else."""
    plain: object = None
    with suppress(TypeError, ValueError, RecursionError):
        plain = json.loads(json.dumps(value, allow_nan=False))
    return [part for part in plain if isinstance(part, dict)] if isinstance(plain, list) else []
