"""Evidence of a failed call: the answer as it came, and what exceptions say where none did.

Exceptions are read by their shape, so that one module alone imports what raises them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, TypeGuard
from urllib.parse import urlsplit

from loopkit.agents.port import AgentError
from loopkit.engine.payloads import TokenUse
from loopkit.text import one_line

WIDTH, MOST_TOLD = 240, 10_000
"""Characters of a provider's own words in a message, and of those that are looked into."""
KEY_HEADERS = ("authorization", "x-api-key", "api-key", "x-goog-api-key")
SHORTEST_SECRET = 7
"""Characters; shorter than that is the scheme, such as `Bearer`."""


@dataclass(frozen=True, slots=True)
class FailureCause:
    kinds: frozenset[str] = frozenset()
    """All classes in the chain of causes, with their bases; `WebPage` for one with a status of
    success."""
    said: str = ""
    """The provider's own words, else the innermost message, on one line and without the key."""
    texts: str = ""
    """The texts of all exceptions in the chain, where no answer came."""
    made_up: int | None = None
    """The status that LiteLLM gave to its exception."""
    answered: int | None = None
    """The status with which a server really answered, or which an answer reports."""
    is_sent: bool = True
    """Whether a request got as far as the network."""
    has_come_back: bool = True
    """Whether there was an answer, even an unusable one."""
    named: Mapping[str, str] = field(default_factory=dict)
    """The headers of the answer and the fields of its error; in lower case with hyphens."""
    codes: frozenset[str] = frozenset()
    """The fields CODES of the error."""
    told: str = ""
    """The words of the error and the limits that it names."""
    subject: str = ""
    """The part of the request that is named as at fault: of SUBJECTS, or `option`."""
    wait_s: float | None = None
    model: str = ""
    provider: str = ""
    key_env: str = ""
    """The environment variable of the agent's key, if it names one."""
    has_schema: bool = True
    has_tools: bool = False
    origin: str = "the provider"
    """The address of the request, if it is known: scheme, host and port."""

    @property
    def status(self) -> int | None:
        """The status to sort by: the real one, a code that says more, or what LiteLLM made up."""
        meant = status_of(self.codes) if self.answered in VAGUE else None
        return meant or self.answered or self.made_up


def cause_of(error: Exception, received: Received) -> FailureCause:
    chain = tuple(_chain(error))
    kinds = {kind.__name__ for link in chain for kind in type(link).__mro__}
    if received.is_page:
        kinds.add("WebPage")
    made_up = getattr(error, "status_code", None)
    said = _unwrap(str(error))
    failure = FailureCause(
        kinds=frozenset(kinds),
        said=_short_text(said, received.request),
        texts="" if received.status else " ".join(str(link) for link in chain),
        made_up=made_up if isinstance(made_up, int) else None,
        is_sent=received.request is not None,
        has_come_back=received.status is not None,
        named=received.headers,
        told=said[:MOST_TOLD],
        model=str(getattr(error, "model", "")),
        provider=str(getattr(error, "llm_provider", "")),
        origin=_origin(received.request),
    )
    if (received.status or 0) >= 400:
        failure = replace(failure, answered=received.status)
        return _with_body(failure, received.data, received.request)
    if received.record.get("error"):
        return cause_in(received.record, failure, received.request)
    return failure


def cause_in(
    record: Mapping[str, Any], failure: FailureCause | None = None, request: Any = None
) -> FailureCause:
    """The failure that a provider reports in an answer with a status of success."""
    failure = _with_body(failure or FailureCause(), record, request)
    core = innermost(record)
    named = core.get("code", core.get("status")) if isinstance(core, dict) else None
    status = int(named) if isinstance(named, str) and _STATUS.fullmatch(named) else named
    if not isinstance(status, int) or not 400 <= status < 600:
        status = status_of(failure.codes) or 500
    return replace(failure, answered=status)


def _with_body(failure: FailureCause, body: object, request: Any) -> FailureCause:
    records = tuple(records_in(body))
    said = words(innermost(body))
    said = said or (failure.told if failure.answered else "")
    fields = [
        (name.lower().replace("_", "-"), str(value))
        for one in records
        for name, value in one.items()
        if isinstance(value, str | int | float)
    ]
    codes = [value for name, value in fields if name in CODES]
    # AWS writes `com.amazon.…#ThrottlingException:http://…` there.
    codes.append(failure.named.get("x-amzn-errortype", ""))
    told = [value for name, value in fields if name in ("message", "msg", "quotaid")]
    told += [f"limit: {value}" for name, value in fields if name == "quotavalue"]
    place = _place_in(records, said)
    subjects = (subject for subject, pattern in SUBJECTS.items() if pattern.search(place))
    return replace(
        failure,
        said=_short_text(said, request),
        told=" ".join((said, *told))[:MOST_TOLD],
        named={**dict(fields), **failure.named},
        codes=frozenset(code.rpartition("#")[2].partition(":")[0] for code in codes),
        subject=next(subjects, "option" if place else ""),
    )


def _short_text(said: str, request: Any) -> str:
    """The words on one line, without the keys that were sent with the request."""
    for name, value in getattr(request, "headers", {}).items():
        for secret in value.split() if name.lower() in KEY_HEADERS else ():
            if len(secret) >= SHORTEST_SECRET:
                said = said.replace(secret, "[key]")
    return one_line(said, WIDTH).rstrip(". ")


def _chain(error: BaseException) -> Iterator[BaseException]:
    link: BaseException | None = error
    seen: set[int] = set()
    # An error of an earlier try is not a cause of this one.
    while link is not None and id(link) not in seen and not isinstance(link, AgentError):
        seen.add(id(link))
        yield link
        link = link.__cause__ or link.__context__


def _origin(request: Any) -> str:
    parts = urlsplit(str(getattr(request, "url", "")))
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}" if host else "the provider"


DEEPEST, MOST_INSIDE = 8, 20
"""The levels and the items of an error that are read."""
INSIDE = (
    "error", "errors", "detail", "details", "message", "metadata", "raw", "headers", "innererror",
    "violations", "fieldViolations", "retryDelay",
)  # fmt: skip
"""The fields that hold more of an error, and not what the request held."""
CODES = ("code", "type", "--type", "status", "reason")
VAGUE = frozenset({400, 500})
STATUSES: Mapping[str, int] = {
    code: status
    for status, codes in {
        401: "API_KEY_INVALID UNAUTHENTICATED authentication_error invalid_api_key"
        " invalid_authentication_error UnrecognizedClientException ExpiredTokenException",
        429: "RESOURCE_EXHAUSTED ThrottlingException TooManyRequestsException rate_limit_error"
        " rate_limit_exceeded rate_limit_reached_error RateLimitReached too_many_requests",
        403: "PERMISSION_DENIED AccessDeniedException permission_error permission_denied",
        404: "NOT_FOUND ResourceNotFoundException not_found_error",
        504: "DEADLINE_EXCEEDED timeout_error",
        503: "UNAVAILABLE ServiceUnavailableException overloaded",
        400: "INVALID_ARGUMENT FAILED_PRECONDITION ValidationException invalid_request_error",
    }.items()
    for code in codes.split()
}
"""What codes mean as a status; the first of several counts."""
SUBJECTS = {
    "prompt": re.compile(
        r"(?i)^(?:body\.|\w+Request\.)*(?:messages|contents?|inputs?|prompt|system|instructions)\b"
    ),
    "length": re.compile(r"(?i)^(?:\w+\.)*(?:max_?\w*tokens|num_predict)$"),
    "tools": re.compile(
        r"(?i)\b(?:tools?|functions?|tool_?(?:choice|config|spec)|function_(?:call|declarations))\b"
    ),
    "schema": re.compile(
        r"(?i)(?:response|output|text)[._]?(?:json_)?(?:format|schema)|output_config\.format"
        r"|json_?schema|guided_|structured_output|grammar|^format\b"
    ),
    "model": re.compile(r"(?i)^(?:body\.)?model(?:_?id)?$"),
}
"""The parts of a request, by the names of their fields."""
_LED = re.compile(
    r"(?i)\W{0,3}([a-z][a-z\d]{0,40}[_.\[/][\w.\[\]/$-]{0,200}): |[^#]{0,40}#/(\w{1,40}): "
    r"|(messages|temperature|metadata|thinking|stop|user): "
    r"|(?:(?:un(?:supported|known)|invalid) (?:parameter|value|type|field)(?: for)?:? |invalid )"
    r"['`\"]([\w.\[\]$]{1,200})['`\"]|['`\"]([a-z]{1,40}[_.][\w.\[\]$]{0,200})['`\"]"
)
"""How a message begins that names its field first."""
_STATUS = re.compile(r"[45]\d\d", re.ASCII)
_HTML = re.compile(r"<(!doctype|html|head|body)\b", re.IGNORECASE)
_TITLE = re.compile(r"<title>(.{0,500}?)</title>", re.IGNORECASE | re.DOTALL)
_WRAPPING = re.compile(r"\s*(litellm\.)?\w*(Error|Exception|Timeout)( \w*Error)?(:| -)\s*")
_ADVICE = re.compile(
    r"\s*(\. Handle with `litellm|\. To drop these|\. Check the reverse proxy"
    r"|\.? ?Give Feedback / Get Help|Traceback \(most).*"
)


def data_in(text: str | bytes) -> object:
    """The data in a text, else the text itself."""
    with suppress(ValueError, RecursionError):
        return json.loads(text)
    return text


def records_in(body: object, depth: int = 0) -> Iterator[Mapping[str, Any]]:
    """The record of an error and those inside, outer ones first."""
    inside: Iterable[object] = ()
    match data_in(body) if isinstance(body, str) else body:
        case list() as several:
            inside = several[:MOST_INSIDE]
        case dict() as record:
            yield record
            inside = map(record.get, INSIDE)
    for one in inside if depth < DEEPEST else ():
        yield from records_in(one, depth + 1)


def innermost(body: object) -> object:
    """The record of an error without the records around it."""
    for _ in range(DEEPEST):
        match body:
            case [inner, *_] | {"error": inner} | {"detail": inner} if inner:
                body = inner
            case {"message": dict() | list() as inner} if inner:
                body = inner
            case _:
                break
    return body


def words(core: object) -> str:
    """What the innermost record of an error says in words; else empty."""
    match core:
        case {"message": str() as message, "metadata": {"raw": str() as raw}} if raw:
            # OpenRouter's own words say only that another provider failed.
            return f"{message}: {words(innermost(data_in(raw))) or raw}"
        case {"message": str() as message, "param": str() as param} if param not in message:
            return f"{param}: {message}"
        case {"msg": str() as message, "loc": list() as steps}:
            return f"{'.'.join(map(str, steps))}: {message}"
        case {"message": str() as message} | {"msg": str() as message}:
            return message
        case str() as text if _HTML.search(text):
            title = _TITLE.search(text)
            return f"an HTML page: {title[1].strip()}" if title else "an HTML page"
        case str() as text:
            return text
        case _:
            return ""


def status_of(codes: frozenset[str]) -> int | None:
    return next((status for code, status in STATUSES.items() if code in codes), None)


def _place_in(records: Sequence[Mapping[str, Any]], said: str) -> str:
    for record in reversed(records):
        match record:
            case {"param": str() as place} | {"field": str() as place} if place:
                return place
            case {"loc": list() as steps}:
                return ".".join(map(str, steps))
    led = _LED.match(said)
    return next(filter(None, led.groups()), "") if led else ""


def _unwrap(text: str) -> str:
    """The text without the class names and the advice that LiteLLM wraps it in."""
    text = text.split("\nTraceback", 1)[0]
    start = 0
    while wrapped := _WRAPPING.match(text, start):
        start = wrapped.end()
    return _ADVICE.sub("", " ".join(text[start:].split()))


MOST_KEPT_BYTES = 10_000_000
"""Only LiteLLM reads a longer answer."""
MOST_TOKENS = 20_000_000
"""Twice the longest window that is listed; a higher count is wrong."""
COUNTS: tuple[tuple[str, tuple[str, ...], str, str], ...] = (
    ("usage", ("prompt_tokens",), "completion_tokens", "total_tokens"),
    ("usage", ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"),
     "output_tokens", ""),
    ("usage", ("inputTokens", "cacheReadInputTokens", "cacheWriteInputTokens"),
     "outputTokens", "totalTokens"),
    ("usageMetadata", ("promptTokenCount",), "candidatesTokenCount", "totalTokenCount"),
    ("", ("prompt_eval_count",), "eval_count", ""),
)  # fmt: skip
"""Where OpenAI, Anthropic, Bedrock, Gemini and Ollama count tokens: the record, the numbers whose
sum is the input, the output, the total of both."""


@dataclass(slots=True)
class Received:
    """The raw answer to one call; a later answer to the same call replaces an earlier one."""

    request: Any = None
    """What got as far as the network; None where nothing did."""
    status: int | None = None
    """None where no answer came."""
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytearray = field(default_factory=bytearray)
    is_whole: bool = True

    def begin(self, status: int, headers: Mapping[str, str]) -> None:
        self.headers = {name.lower(): value for name, value in headers.items()}
        self.status, self.body, self.is_whole = status, bytearray(), True

    def add(self, chunk: bytes) -> None:
        self.is_whole = self.is_whole and len(self.body) + len(chunk) <= MOST_KEPT_BYTES
        if self.is_whole:
            self.body += chunk
        else:
            self.body.clear()

    @property
    def data(self) -> object:
        return data_in(self.body.decode(errors="replace"))

    @property
    def is_page(self) -> bool:
        start = self.body[:1000].decode(errors="replace").lstrip()
        return (self.status or 600) < 300 and bool(_HTML.match(start))

    @property
    def record(self) -> Mapping[str, Any]:
        """The object that came with a status of success; empty where there is none."""
        if self.status is None or self.status >= 300:
            return {}
        whole = bytes(self.body)
        # Gateways send comments while they wait, and an error as the last line of a stream.
        lines = (line.removeprefix(b"data:") for line in reversed(whole.splitlines()))
        found = (data for text in (whole, *lines) if isinstance(data := data_in(text), dict))
        return next(filter(None, found), {})


CURRENT_RECEIVED: ContextVar[Received | None] = ContextVar("received", default=None)
"""Where the raw answer of the call that is made is kept."""


def is_count(value: object) -> TypeGuard[int]:
    return type(value) is int and 0 <= value <= MOST_TOKENS


def tokens_in(record: Mapping[str, Any]) -> TokenUse | None:
    """The token count in a provider's own answer; None where it has none that can be right."""
    for place, parts, answered, total in COUNTS:
        counted = record.get(place) if place else record
        if not isinstance(counted, Mapping) or not counted.get(parts[0]):
            continue
        named = [counted[name] for name in (*parts, answered, total) if counted.get(name)]
        if not all(map(is_count, named)):
            return None
        sent = sum(counted.get(part) or 0 for part in parts)
        output = max(counted.get(answered) or 0, (counted.get(total) or 0) - sent)
        is_counted = output or counted.get(answered) == 0
        return TokenUse(input=sent, output=output) if is_counted else None
    return None
