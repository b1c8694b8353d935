"""Evidence of a failed call: what the HTTP client saw behind an exception of LiteLLM.

Exceptions are read by their shape, so that one module alone imports it: the
chain of causes ends at what the HTTP client saw, and that is believed first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlsplit

from loopkit.agents.model.received import Received
from loopkit.agents.model.wording import codes, core_of, innermost, text_of, unwrap, words
from loopkit.agents.port import AgentError
from loopkit.text import one_line

WIDTH = 240
"""Characters of a provider's own words in a message."""
KEY_HEADERS = ("authorization", "x-api-key", "api-key", "x-goog-api-key")
SHORTEST_SECRET = 7
"""Characters; shorter than that is the scheme, such as `Bearer`."""
_STATUS = re.compile(r"[45]\d\d", re.ASCII)
_RECEIVED = re.compile(r"\b(Received|Original Response): |Invalid response object")
_PAGE = re.compile(
    r"\b(Received: ['\"]|Original Response: )(\\[nrt]|\s)*<(!doctype|html|head|body)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class FailureCause:
    """The evidence in an exception and its causes."""

    error: Exception
    kinds: frozenset[str]
    """Names of all classes in the chain of causes, with their bases."""
    said: str
    """The innermost message of the failure, on one line and without the key."""
    texts: str
    """The texts of all exceptions in the chain."""
    answered: int | None = None
    """The status with which a server really answered."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """The headers of that answer; names in lower case."""
    codes: frozenset[str] = frozenset()
    """`code` and `type` of the error in its body."""
    key_env: str = ""
    """The environment variable of the agent's key, if it names one."""
    has_schema: bool = True
    """Whether the request had a JSON Schema of the answer, as far as that is known."""
    has_tools: bool = False
    """Whether the request offered tools."""
    origin: str = ""
    """The address of the request: scheme, host and port."""

    @property
    def status(self) -> int | None:
        """The status to sort by: the real one, else what LiteLLM made up."""
        return self.answered or _number(getattr(self.error, "status_code", None))

    @property
    def has_come_back(self) -> bool:
        """Whether there was an answer, even an unusable one: its text may say anything."""
        is_unread = "JSONDecodeError" in self.kinds or bool(_RECEIVED.search(self.texts))
        return self.answered is not None or is_unread

    @property
    def is_web_page(self) -> bool:
        """Whether a web page came with a status of success."""
        return self.answered is None and bool(_PAGE.search(self.texts))

    def names(self, *kinds: str) -> bool:
        """Whether one of these classes is in the chain."""
        return not self.kinds.isdisjoint(kinds)


def cause_of(error: Exception, received: Received | None = None) -> FailureCause:
    """Everything that an exception shows, read without importing what raised it."""
    chain = tuple(_chain(error))
    refusal = next((link for link in chain if _is_kind(link, "HTTPStatusError")), None)
    response = getattr(refusal, "response", None)
    text = text_of(response)
    core = core_of(text)
    said = unwrap(str(error)) if response is None else words(core) or text
    requests = tuple(_requests(chain))
    failure = FailureCause(
        error,
        kinds=frozenset(kind.__name__ for link in chain for kind in type(link).__mro__),
        said=_short_text(said, requests),
        texts=" ".join(str(link) for link in chain),
        answered=_number(getattr(response, "status_code", None)),
        headers=_lower_case_headers(getattr(response, "headers", None))
        or _lower_case_headers(getattr(error, "litellm_response_headers", None)),
        codes=codes(core),
        origin=next((origin for request in requests if (origin := _origin(request))), ""),
    )
    if response is None and received is not None and received.record.get("error"):
        return cause_in(received.record, failure, (*requests, received.request))
    return failure


def cause_in(
    record: Mapping[str, Any], failure: FailureCause | None = None, requests: tuple[Any, ...] = ()
) -> FailureCause:
    """The failure that a provider reports in an answer with a status of success."""
    core = innermost(record)
    return replace(
        failure or FailureCause(Exception(), kinds=frozenset(), said="", texts=""),
        said=_short_text(words(core), requests),
        texts="",
        answered=_status_in(core),
        codes=codes(core),
    )


def _status_in(core: object) -> int:
    """The status in the record of an error; without one, 500."""
    named = core.get("code", core.get("status")) if isinstance(core, dict) else None
    status = int(named) if isinstance(named, str) and _STATUS.fullmatch(named) else named
    return status if isinstance(status, int) and 400 <= status < 600 else 500


def _short_text(said: str, requests: tuple[Any, ...]) -> str:
    """The provider's words on one line, shortened and without the key."""
    return one_line(_without_keys(said, requests), WIDTH).rstrip(". ")


def _chain(error: BaseException) -> Iterator[BaseException]:
    link: BaseException | None = error
    seen: set[int] = set()
    # An error of an earlier try is not a cause of this one.
    while link is not None and id(link) not in seen and not isinstance(link, AgentError):
        seen.add(id(link))
        yield link
        link = link.__cause__ or link.__context__


def _is_kind(error: BaseException, name: str) -> bool:
    return any(kind.__name__ == name for kind in type(error).__mro__)


def _lower_case_headers(headers: object) -> dict[str, str]:
    if not hasattr(headers, "items"):
        return {}
    return {str(name).lower(): str(value) for name, value in headers.items()}


def _requests(chain: tuple[BaseException, ...]) -> Iterator[Any]:
    """The requests in a chain, innermost first: LiteLLM puts made-up ones into the outer links."""
    for link in reversed(chain):
        # httpx raises where an exception has none.
        with suppress(Exception):
            request = getattr(link, "request", None)
            if request is not None:
                yield request


def _origin(request: Any) -> str:
    with suppress(ValueError):
        parts = urlsplit(str(getattr(request, "url", "")))
        host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
        port = f":{parts.port}" if parts.port else ""
        return f"{parts.scheme}://{host}{port}" if parts.scheme and host else ""
    return ""


def _without_keys(text: str, requests: tuple[Any, ...]) -> str:
    """The text without the keys that were sent with the requests."""
    for request in requests:
        headers = _lower_case_headers(getattr(request, "headers", None))
        for name in KEY_HEADERS:
            for secret in headers.get(name, "").split():
                if len(secret) >= SHORTEST_SECRET:
                    text = text.replace(secret, "[key]")
    return text


def _number(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
