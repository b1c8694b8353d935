"""The answer of a server as it came, kept beside LiteLLM's reading of it while a call lasts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from loopkit.agents.model.pricing import Used

MOST_BYTES = 10_000_000
"""Of an answer that is kept; a longer one is only read by LiteLLM."""
MOST_TOKENS = 1_000_000_000
"""No call has more; who says so did not count."""
COUNTS: tuple[tuple[str, tuple[str, ...], str, str], ...] = (
    ("usage", ("prompt_tokens",), "completion_tokens", "total_tokens"),
    ("usage", ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"),
     "output_tokens", ""),
    ("usage", ("inputTokens", "cacheReadInputTokens", "cacheWriteInputTokens"),
     "outputTokens", "totalTokens"),
    ("usageMetadata", ("promptTokenCount",), "candidatesTokenCount", "totalTokenCount"),
    ("", ("prompt_eval_count",), "eval_count", ""),
)  # fmt: skip
"""Where OpenAI and whoever speaks like it, Anthropic, Bedrock, Gemini and Ollama say what a call
took: the record, the numbers whose sum went in, the one that came out, the one of both."""


@dataclass(slots=True)
class Received:
    """What came back for one call; a later answer of the same call replaces an earlier one."""

    status: int | None = None
    """None where nothing came."""
    request: Any = None
    """What was answered."""
    body: bytearray = field(default_factory=bytearray)
    is_whole: bool = True

    def begin(self, request: Any, status: int) -> None:
        """An answer begins."""
        self.status, self.request, self.body, self.is_whole = status, request, bytearray(), True

    def add(self, chunk: bytes) -> None:
        """The next part of it."""
        self.is_whole = self.is_whole and len(self.body) + len(chunk) <= MOST_BYTES
        if self.is_whole:
            self.body += chunk
        else:
            self.body.clear()

    @property
    def record(self) -> Mapping[str, Any]:
        """The object that came with a status of success; empty where it is none."""
        if self.status is None or self.status >= 300:
            return {}
        whole = bytes(self.body)
        # Gateways send comments while they wait, and an error as the last line of a stream.
        lines = (line.removeprefix(b"data:") for line in reversed(whole.splitlines()))
        return next(filter(None, map(_object_in, (whole, *lines))), {})


_HEARD: ContextVar[Received | None] = ContextVar("received", default=None)


def _object_in(text: bytes) -> dict[str, Any]:
    """The object that a text of JSON is; empty where it is none."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return data if isinstance(data, dict) else {}


@contextmanager
def received_in(received: Received) -> Iterator[None]:
    """Keep what comes back while one call is made."""
    token = _HEARD.set(received)
    try:
        yield
    finally:
        _HEARD.reset(token)


def now_received() -> Received | None:
    """Where what comes back for the call in hand is kept, if there is one."""
    return _HEARD.get()


def used_in(record: Mapping[str, Any]) -> Used | None:
    """The tokens that a provider counts in its own answer; None where it does not."""
    for place, parts, answered, total in COUNTS:
        counted = record.get(place) if place else record
        if not isinstance(counted, Mapping) or _number(counted, parts[0]) == 0:
            continue
        sent = sum(_number(counted, part) for part in parts)
        # Some count what the model thought in the total alone.
        return Used(sent, max(_number(counted, answered), _number(counted, total) - sent))
    return None


def _number(counted: Mapping[str, Any], name: str) -> int:
    number = counted.get(name)
    return number if type(number) is int and 0 <= number <= MOST_TOKENS else 0
