"""A model agent: quotes a call, makes it once, and returns its reply or raises its error."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from loopkit.agents.model import client
from loopkit.agents.model.errors import as_agent_error
from loopkit.agents.model.failure_cause import Received, cause_of, innermost, tokens_in, words
from loopkit.agents.model.pricing import (
    OUTPUT_CAPS,
    answer_caps,
    cost,
    input_bound,
    known_model,
    provider_of,
    quote,
)
from loopkit.agents.model.reply import (
    SELL_CLAUDE,
    chat_answer,
    fields_to_return,
    has_tools,
    is_from,
    offered_tools,
    read_reply,
    takes_schema_too,
    tool_arguments,
)
from loopkit.agents.port import AgentError, Message, Reply, Request, asking_for
from loopkit.engine.payloads import ToolCall
from loopkit.engine.records import Usage
from loopkit.language.agents.model import ModelAgent
from loopkit.language.json_schema import NotInlined, inlined, part_at, parts, rewrite, steps_of
from loopkit.text.json_text import NoJson, parse_json
from loopkit.text.thoughts import set_apart


class ModelAgentPort:
    def __init__(self, definition: ModelAgent) -> None:
        self._in_turn = definition.in_turn
        self._longest: dict[tuple[int, str], int] = {}
        """By fallback and model: the cap that its server named when it refused ours."""
        self._cap_names: dict[tuple[int, str], str] = {}
        """The same for the name of the option."""

    async def ready(self) -> None:
        await client.ready()

    def quote(self, request: Request) -> Usage:
        """The most that the call can cost, with the usual cap where a limit needs one; raises
        AgentError without a key."""
        agent = self._in_turn[request.fallback]
        name = agent.api_key_env
        if name is not None and not os.environ.get(name):
            raise AgentError("fatal", f"the environment variable `{name}` is not set")
        if request.is_limited:
            caps = answer_caps(agent, request.model, input_bound(request))
            longest = self._longest.get((request.fallback, request.model))
            request.caps = caps if caps is None or longest is None else caps.within(longest)
        if request.caps is not None and request.cap is None:
            request.cap = request.caps.usual
        return quote(agent, request)

    async def ask(self, request: Request) -> Reply:
        """Make one request, without retries; raises AgentError."""
        in_words = form_of(self._in_turn[request.fallback], request)[1]
        try:
            try:
                reply = await self._ask(request)
            except AgentError as error:
                if not error.refuses_schema:
                    raise
                in_words, request.in_words = error.message, True
                reply = await self._ask(request)
        except AgentError as error:
            error.in_words = in_words
            raise
        return reply.replace(in_words=in_words) if in_words else reply

    async def _ask(self, request: Request) -> Reply:
        agent = self._in_turn[request.fallback]
        offers = bool(offered_tools(agent, request))
        received = Received()
        try:
            response = await self._complete(agent, request, received)
        except AgentError:
            raise
        except Exception as error:
            has_schema = native_schema(agent, request) is not None
            failure = as_agent_error(
                error, received, agent.api_key_env, has_schema=has_schema, has_tools=offers
            )
            # The answer was paid for: if only LiteLLM can't read it, it is read here.
            answer = chat_answer(received.record, has_tools=offers) if failure.unreadable else None
            if answer is None:
                if (used := tokens_in(received.record)) is not None:
                    failure.charged = False
                    failure.tokens = used.input + used.output
                    failure.cost_usd = cost(agent, request.model, used, None)
                raise failure from error
            response = await client.read(answer, request.model)
        reply = read_reply(agent, request, response)
        if agent.thoughts is not None and (whole := chat_answer(received.record)):
            text = whole["choices"][0]["message"]["content"]
            if text and text != reply.text:
                # LiteLLM has taken out a thought at the start by itself.
                reply = reply.replace(text=text, thoughts="")
        if (schema := native_schema(agent, request)) is not None:
            said = set_apart(reply.text, agent.thoughts)[0]
            text = reply.text.replace(said, without_added_nulls(said, schema))
            return reply.replace(text=text)
        return reply

    async def _complete(self, agent: ModelAgent, request: Request, received: Received) -> Any:
        """LiteLLM's response. A cap of ours that the server refuses is lowered to what it names,
        and sent under the name that it wants, each once."""
        place = (request.fallback, request.model)
        tried = set[str]()
        while True:
            try:
                sent = arguments(agent, request, self._cap_names.get(place))
                return await client.complete(sent, received)
            except Exception as error:
                cap = request.cap
                refusal = cap and cap_refusal(received, cap, input_bound(request))
                if not cap or not refusal:
                    raise
                remedy = "name" if refusal.name else "number"
                if remedy in tried or not (refusal.name or refusal.most):
                    option = refusal.name or self._cap_names.get(place, OUTPUT_CAPS[-1])
                    said = cause_of(error, received).said
                    raise refused(cap, said, f"{request.agent}.{option}") from error
                tried.add(remedy)
                if refusal.name:
                    self._cap_names[place] = refusal.name
                elif refusal.most:
                    self._longest[place] = request.cap = refusal.most
                    request.caps = request.caps and request.caps.within(refusal.most)


MARKED = SELL_CLAUDE | {"openrouter"}
"""Providers of Claude, which cache only what is marked."""


def arguments(agent: ModelAgent, request: Request, cap_name: str | None = None) -> dict[str, Any]:
    """The arguments of `litellm.acompletion`, with the name of the cap that the server wants."""
    keywords: dict[str, Any] = {
        "model": request.model,
        "messages": chat_messages(
            _messages(agent, request), request.model, has_tools=has_tools(agent, request.model)
        ),
        **agent.params,
        **tool_arguments(agent, request),
    }
    if request.cap is not None and cap_name is not None:
        # LiteLLM has names of its own for some models; this goes out as it is.
        keywords["extra_body"] = {**keywords.get("extra_body", {}), cap_name: request.cap}
    elif request.cap is not None:
        keywords["max_tokens"] = request.cap
    if (address := agent.base_url or _own_address(request.model)) is not None:
        keywords["base_url"] = address
    if agent.api_key_env is not None:
        keywords["api_key"] = os.environ.get(agent.api_key_env)
    if (schema := native_schema(agent, request)) is not None:
        schema = strict_form(schema)
        form = {"name": "answer", "schema": schema, "strict": is_closed(schema)}
        keywords["response_format"] = {"type": "json_schema", "json_schema": form}
    is_claude = "claude" in request.model.lower()
    if request.is_sent_again and is_claude and provider_of(request.model) in MARKED:
        # Writing to the cache costs a quarter more, reading a tenth.
        points = [{"location": "message", "role": "system"}, {"location": "message", "index": -1}]
        has_system = request.messages[0].role == "system"
        keywords.setdefault("cache_control_injection_points", points[not has_system :])
    return keywords


OLLAMA = frozenset({"ollama", "ollama_chat"})
ANY_HOST = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - asked, not bound
PORTS = {"": 11434, "http": 80, "https": 443}


def _own_address(model: str) -> str | None:
    """The address of Ollama in `OLLAMA_HOST`, as its own client reads that."""
    written = os.environ.get("OLLAMA_HOST", "").strip(" \t\r\n\"'")
    if not written or provider_of(model) not in OLLAMA or os.environ.get("OLLAMA_API_BASE"):
        return None
    scheme, _, place = written.rpartition("://")
    where, slash, path = place.partition("/")
    is_bare = where.count(":") > 1 and not where.startswith("[")
    parts = urlsplit(f"//[{where}]" if is_bare else f"//{where}")
    port = PORTS.get(scheme)
    # It ignores an impossible port as well.
    with suppress(ValueError):
        port = parts.port or port
    host = ANY_HOST.get(parts.hostname or "", parts.hostname)
    host = f"[{host}]" if host and ":" in host else host
    return f"{scheme or 'http'}://{host}:{port or PORTS['']}{slash}{path}".rstrip("/")


def native_schema(agent: ModelAgent, request: Request) -> Mapping[str, Any] | None:
    """The schema that is sent as such; None without one, or where it is asked for in words."""
    return form_of(agent, request)[0]


def form_of(agent: ModelAgent, request: Request) -> tuple[Mapping[str, Any] | None, str]:
    """The schema that is sent as such; without one, why a model that takes schemas is sent none."""
    if request.schema is None or request.in_words or agent.structured == "text":
        return None, ""
    known = known_model(request.model)
    is_told = agent.structured == "native"
    takes_one = is_told or (known is not None and known.native_schema)
    if not takes_one or (
        offered_tools(agent, request) and not takes_schema_too(agent, request.model)
    ):
        return None, ""
    thinks = agent.params.keys() & {"thinking", "reasoning_effort"}
    try:
        form = native_form(request.schema, provider_of(request.model))
        # LiteLLM forbids Claude every field without a name then, and has a mapping left empty.
        if "claude" in request.model.lower() and (thinks or offered_tools(agent, request)):
            _refuse_mappings(form)
    except NotInlined as why:
        told = f"`{request.model}` can't be sent the JSON Schema of the answer: {why}"
        return (request.schema, "") if is_told else (None, told)
    return form, ""


def _messages(agent: ModelAgent, request: Request) -> Sequence[Message]:
    is_told = request.is_described or native_schema(agent, request) is not None
    if request.schema is None or is_told:
        return request.messages
    told = asking_for(json.dumps(request.schema, ensure_ascii=False))
    first, *rest = request.messages
    if first.role != "system":
        return [Message("system", told), *request.messages]
    return [Message("system", f"{first.content.rstrip()}\n\n{told}"), *rest]


STRICT = frozenset({
    "$defs", "$ref", "additionalProperties", "anyOf", "const", "description", "enum",
    "exclusiveMaximum", "exclusiveMinimum", "format", "items", "maxItems", "maximum",
    "minItems", "minimum", "multipleOf", "pattern", "properties", "required", "title", "type",
})  # fmt: skip
TYPE_WORDS = frozenset({"type", "anyOf", "enum", "const", "$ref"})
"""Each part of a strict schema has one of these words."""
FOR_TOOLS = frozenset({"$comment", "$schema"})
"""Words of a schema that say nothing to a model."""
FOLLOW_REFERENCES = frozenset({"azure", "openai"})
"""Providers that follow references, to the root and its `$defs`."""


def native_form(schema: Mapping[str, Any], provider: str) -> Mapping[str, Any]:
    """The schema as that of an object, with no references that the provider does not follow; raises
    NotInlined, because providers refuse any other."""
    steps = steps_of(schema["$ref"]) if isinstance(schema.get("$ref"), str) else None
    root = part_at(schema, steps) if steps else None
    form = {**root, **{w: v for w, v in schema.items() if w != "$ref"}} if root else schema
    if provider not in FOLLOW_REFERENCES or not all(map(_is_near, parts(form))):
        form = inlined(schema)
    if form.get("type") != "object":
        raise NotInlined("it is not that of an object")
    kept: Mapping[str, Any] = rewrite(
        form, lambda part: {word: said for word, said in part.items() if word not in FOR_TOOLS}
    )
    return kept


def _refuse_mappings(schema: Mapping[str, Any]) -> None:
    for part in parts(schema):
        kind = part.get("type")
        others = part.get("additionalProperties", not part.get("properties"))
        if "object" in (kind if isinstance(kind, list) else [kind]) and others is not False:
            raise NotInlined("it has a mapping with names of any kind")


def _is_near(part: Mapping[str, Any]) -> bool:
    """Whether a part refers to nothing but the root and its definitions, and only refers."""
    steps = steps_of(str(part.get("$ref", "#")))
    is_near = steps is not None and (not steps or (steps[0] == "$defs" and len(steps) == 2))
    return is_near and _only_refers(part)


def _only_refers(part: Mapping[str, Any]) -> bool:
    """Whether a reference, if there is one, has no words beside it."""
    return "$ref" not in part or part.keys() <= {"$ref", "$defs"}


def is_closed(schema: object) -> bool:
    """Whether OpenAI takes a schema as strict: every object in it has all its fields required and
    no others, and there are no words but those of STRICT."""
    return all(map(_is_strict, parts(schema)))


def _is_strict(part: Mapping[str, Any]) -> bool:
    fields = part.get("properties", {})
    is_known = part.keys() <= STRICT and not part.keys().isdisjoint(TYPE_WORDS)
    if not is_known or not _only_refers(part):
        return False
    if True in fields.values() or part.get("items") is True:
        return False
    is_object = part.get("type") == "object" or "properties" in part
    is_whole = set(fields) == set(part.get("required", ()))
    return not is_object or (part.get("additionalProperties") is False and is_whole)


def closed_form(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema without other fields in an object that names some, unless several of its parts may
    describe the same object."""
    for part in parts(schema):
        is_joined = "properties" in part and not part.keys().isdisjoint({"$ref", "anyOf"})
        if is_joined or not part.keys() <= STRICT | {"default"}:
            return schema
    more = {"additionalProperties": False}
    closed: Mapping[str, Any] = rewrite(
        schema, lambda part: (more if part.get("properties") else {}) | dict(part)
    )
    return closed


def strict_form(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """The closed schema with every field required, and null for those that may be left out, if that
    makes it strict."""
    schema = closed_form(schema)

    def change(part: Mapping[str, Any]) -> dict[str, Any]:
        # A default is for a field that is left out, and no field is left out here.
        kept = {word: value for word, value in part.items() if word != "default"}
        fields = part.get("properties")
        if not isinstance(fields, Mapping):
            return kept
        added = set(_omittable_fields(part, schema))
        nullable = {n: {"anyOf": [fields[n], {"type": "null"}]} for n in fields if n in added}
        return {**kept, "properties": {**fields, **nullable}, "required": list(fields)}

    strict: Mapping[str, Any] = rewrite(schema, change)
    return strict if is_closed(strict) else schema


def without_added_nulls(text: str, schema: Mapping[str, Any]) -> str:
    """An answer without the nulls that only the strict form of its schema allowed."""
    answer = parse_json(text)
    if isinstance(answer, NoJson) or not is_closed(strict_form(schema)):
        return text
    kept = _without_added(answer, schema, schema)
    return text if kept == answer else json.dumps(kept, ensure_ascii=False)


def _omittable_fields(part: Mapping[str, Any], root: Mapping[str, Any]) -> Iterator[str]:
    """The fields of an object that may be left out, but not be null."""
    required = part.get("required", ())
    for name, field in part.get("properties", {}).items():
        if name not in required and not _takes_null(field, root):
            yield name


def _takes_null(part: Any, root: Mapping[str, Any]) -> bool:
    for option in _options(part, root):
        kind = option.get("type", "null")
        is_typed = "null" in (kind if isinstance(kind, list) else [kind])
        if is_typed and None in option.get("enum", [None]) and option.get("const") is None:
            return True
    return part is True


def _options(part: Any, root: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The alternatives of a part; each reference is followed once."""
    waiting, seen = [part], set[str]()
    while waiting:
        match waiting.pop():
            case {"$ref": str() as reference}:
                if reference not in seen:
                    waiting.append(part_at(root, steps_of(reference) or ()))
                seen.add(reference)
            case {"anyOf": list() as several}:
                waiting += several
            case Mapping() as option:
                yield option


def _may_be(value: Mapping[str, Any], fields: Mapping[str, Any]) -> bool:
    """Whether a record may have these fields: it has no others, and fixed words are its own."""
    for name, given in value.items():
        match fields.get(name):
            case {"enum": words} if given is not None and given not in words:
                return False
            case {"const": word} if given is not None and given != word:
                return False
    return value.keys() <= fields.keys()


def _without_added(value: Any, part: Any, root: Mapping[str, Any]) -> Any:
    options = list(_options(part, root))
    if isinstance(value, list):
        items = next((option["items"] for option in options if "items" in option), None)
        return [_without_added(inner, items, root) for inner in value]
    if not isinstance(value, dict):
        return value
    fitting = [o for o in options if _may_be(value, o.get("properties", {}))]
    # A strict answer has all fields of its form, so the smallest fitting form is the right one.
    record = min(fitting, key=lambda option: len(option.get("properties", {})), default={})
    added = set(_omittable_fields(record, root))
    fields = record.get("properties", {})
    return {
        name: _without_added(inner, fields.get(name), root)
        for name, inner in value.items()
        if inner is not None or name not in added
    }


NOTHING_SAID, NOTHING_GIVEN = "(no answer)", "(no output)"
"""Of an agent and of a tool: providers refuse messages without text."""

MERGE_CALLS = frozenset({"gemini", "vertex_ai", "vertex_ai_beta"})
"""Providers for which LiteLLM leaves out a call that says the same as another, but not its result:
they refuse one more result than calls."""


def chat_messages(
    messages: Iterable[Message], model: str, *, has_tools: bool
) -> list[dict[str, Any]]:
    """The messages in the form that a model takes, which is offered tools or not."""
    taken = _with_calls_in_words(messages, model if has_tools else None)
    if provider_of(model) in MERGE_CALLS:
        taken = _with_merged_calls(taken)
    return [_chat_message(message) for message in taken]


def _chat_message(message: Message) -> dict[str, Any]:
    match message.role:
        case "assistant" if message.tool_calls:
            calls = [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {"name": call.name, "arguments": _readable_arguments(call)},
                }
                for call in message.tool_calls
            ]
            content = message.content if message.content.strip() else None
            kept = fields_to_return(message.kept)
            return {"role": "assistant", "content": content, "tool_calls": calls, **kept}
        case "tool":
            content = message.content if message.content.strip() else NOTHING_GIVEN
            return {"role": "tool", "tool_call_id": message.tool_call_id, "content": content}
    is_silent = message.role == "assistant" and not message.content.strip()
    return {"role": message.role, "content": NOTHING_SAID if is_silent else message.content}


def _readable_arguments(call: ToolCall) -> str:
    # Anthropic and Gemini take nothing but objects: LiteLLM raises on anything else.
    is_object = isinstance(parse_json(call.arguments), dict)
    return call.arguments.lstrip("\ufeff") if is_object else "{}"


def _with_calls_in_words(messages: Iterable[Message], model: str | None) -> Iterator[Message]:
    """The messages, with the calls in words that `model` did not make, or all: a provider refuses
    the ids and the signed thoughts of another."""
    names: dict[str, str] = {}
    results: list[str] = []
    for message in messages:
        if message.role == "tool" and message.tool_call_id in names:
            results.append(f"`{names[message.tool_call_id]}` gave:\n\n{message.content}")
        elif message.role == "user":
            yield message.replace(content="\n\n".join([*results, message.content]))
            results = []
        else:
            yield from _results_message(results)
            results = []
            is_own = model is not None and is_from(message.kept, model)
            names = {} if is_own else {call.id: call.name for call in message.tool_calls}
            yield _in_words(message) if names else message
    yield from _results_message(results)


def _results_message(results: Sequence[str]) -> Iterator[Message]:
    if results:
        yield Message("user", "\n\n".join(results))


def _in_words(message: Message) -> Message:
    calls = (f"I call `{call.name}` with {call.arguments}" for call in message.tool_calls)
    return Message("assistant", "\n\n".join(filter(None, [message.content.strip(), *calls])))


def _with_merged_calls(messages: Iterable[Message]) -> Iterator[Message]:
    """The messages, with one call and one result for each set of equal calls."""
    ids: dict[str, str] = {}
    """By the id of a call: that of the first equal one."""
    results_by_call: dict[str, list[str]] = {}
    for message in messages:
        if message.role == "tool" and (first := ids.get(message.tool_call_id)):
            results_by_call.setdefault(first, []).append(message.content)
            continue
        yield from _tool_messages(results_by_call)
        results_by_call = {}
        first_of = dict[tuple[str, str], str]()
        for call in message.tool_calls:
            arguments = json.dumps(json.loads(_readable_arguments(call)), sort_keys=True)
            ids[call.id] = first_of.setdefault((call.name, arguments), call.id)
        firsts = [call for call in message.tool_calls if ids[call.id] == call.id]
        yield message.replace(tool_calls=firsts)
    yield from _tool_messages(results_by_call)


def _tool_messages(results_by_call: Mapping[str, Sequence[str]]) -> Iterator[Message]:
    for call_id, results in results_by_call.items():
        yield Message("tool", "\n\n".join(dict.fromkeys(results)), tool_call_id=call_id)


STATUSES = frozenset({400, 402, 413, 422, 429})
"""With which servers refuse a cap: credit or tokens of a minute may not suffice for it either."""
_OPTION = re.compile(
    r"(?i)\bmax(?:imum)?[_ ]?(?:(?:completion|output|new)[_ ]?)?tokens(?:_to_sample)?\b"
    r"|\bnum_predict\b|\b(?:completion|output) tokens\b"
)
_NAME = re.compile(r"\bmax_(?:completion_)?tokens\b")
_SUGGESTED = re.compile(
    r"(?i)\b(?:use|try|with|mean|by|of)\W{1,3}(?:the )?\W{0,2}(max_(?:completion_)?tokens)\b"
)
_UNKNOWN_NAME = re.compile(
    r"(?i)\b(?:unsupported|unrecogni[sz]ed|unknown|unexpected|invalid) \w*\s?(?:parameter|argument"
    r"|key|field|option|property)|\bextra inputs\b|\binstead\b|\bis (?:not supported|deprecated)"
)
_SEPARATOR = re.compile(r"(?<=\d)[,_](?=\d{3}(?!\d))")
_NUMBER = re.compile(r"(?<![\w.\-/])(?:\d+\s?[-–~]\s?)?(\d+)(?![\w\-]|\.\d)")
_WINDOWS = (
    re.compile(r"\d ?\+ ?\d+ ?> ?(\d+)"),
    re.compile(r"(?i)\b(?:context|sequence)[ _](?:length|window|limit|size)\D{0,40}?(\d+)"),
    re.compile(r"\bmax_model_len\D{0,5}(\d+)"),
    re.compile(r"(?i)(\d+)(?: tokens?)? (?:maximum )?context\b"),
    re.compile(
        r"(?i)^(?=.*(?:\btotal\b|\binputs?\W? tokens? \+|\bprompt and\b|\bper min|\bTPM\b))"
        r".*?(?:<=|≤|\bexceed|\bat most|\blimit(?: of| is|:)?)\s?(\d+)"
    ),
)
"""The tokens that prompt and answer may have together."""
_EXCLUSIVE = re.compile(r"(?i)\bexclusive\b|\b(?:lower|less|smaller) than\W{1,3}\d")
_WHOLE = re.compile(r"(?i)\b(?:requested|received)\b")


class CapRefusal(NamedTuple):
    most: int | None = None
    """The longest answer in tokens that it takes, below the cap; None where it names none."""
    name: str = ""
    """The name of the option that it wants instead; empty where it wants none."""


def cap_refusal(received: Received, cap: int, sent: int) -> CapRefusal | None:
    """What an answer says of a cap, if it does; `sent` is a bound on the tokens of the prompt."""
    core = innermost(received.data)
    said = " ".join((words(core) or str(core))[:2_000].split())
    is_refused = received.status in STATUSES or received.record.get("error")
    if not is_refused or (received.status == 429 and "too large" not in said.lower()):
        return None
    return refusal_in(said, cap, sent)


def refused(cap: int, said: str, option: str) -> AgentError:
    """The error for a refusal that could not be met; `option` is that of the agent."""
    asked = f"the longest answer ({cap:,} tokens) that loopkit asks for where a limit is set"
    remedy = f"set one that it takes in `params:`, or by `--param {option}=N` when you resume"
    return AgentError("fatal", f"the provider refuses {asked}: {said}; {remedy}")


def refusal_in(said: str, cap: int, sent: int) -> CapRefusal | None:
    plain = _SEPARATOR.sub("", said)
    numbers = [int(number[1]) for number in _NUMBER.finditer(plain)]
    # No model answers with fewer tokens than 64, so a lower number says something else.
    if (name := _other_name(plain)) and not any(64 <= number < cap for number in numbers):
        return CapRefusal(name=name)
    is_named = cap in numbers or _OPTION.search(plain) is not None
    if found := next(filter(None, (pattern.search(plain) for pattern in _WINDOWS)), None):
        window = int(found[1])
        left = window - _prompt(plain, numbers, window, cap, sent)
        is_too_long = left <= 0 or not (is_named or _WHOLE.search(plain))
        return None if is_too_long else CapRefusal(most=left if left < cap else None)
    if not is_named or min(numbers, default=0) > cap:
        return None
    lower = [number for number in numbers if 0 < number < cap]
    most = max(lower) - bool(_EXCLUSIVE.search(plain)) if lower else None
    return CapRefusal(most=most)


def _other_name(said: str) -> str:
    """The name that a server wants for the option, if it does not know ours."""
    names = _NAME.findall(said)
    if not names or not _UNKNOWN_NAME.search(said):
        return ""
    suggested = _SUGGESTED.search(said)
    other = "max_completion_tokens" if names[0] == "max_tokens" else "max_tokens"
    return suggested[1].lower() if suggested else other


def _prompt(said: str, numbers: list[int], window: int, cap: int, sent: int) -> int:
    """The tokens of the prompt, as a server counts them or as an estimate."""
    others = [number for number in numbers if number not in (cap, window)]
    if (summand := next((n for n in others if n + cap in others), None)) is not None:
        return summand
    if not others:
        return min(sent // 2, window // 2)
    is_whole = _WHOLE.search(said) and others[0] > cap
    return others[0] - cap if is_whole else others[0]
