"""The answer of a server as it came, kept beside LiteLLM's reading of it while a call lasts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from loopkit.agents.model.pricing import Used

MOST_KEPT_BYTES = 10_000_000
"""The longest answer that is kept as it came; only LiteLLM reads a longer one."""
MOST_TOKENS = 20_000_000
"""No call has more, twice the longest window that is listed; a higher count is wrong."""
COUNTS: tuple[tuple[str, tuple[str, ...], str, str], ...] = (
    ("usage", ("prompt_tokens",), "completion_tokens", "total_tokens"),
    ("usage", ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"),
     "output_tokens", ""),
    ("usage", ("inputTokens", "cacheReadInputTokens", "cacheWriteInputTokens"),
     "outputTokens", "totalTokens"),
    ("usageMetadata", ("promptTokenCount",), "candidatesTokenCount", "totalTokenCount"),
    ("", ("prompt_eval_count",), "eval_count", ""),
)  # fmt: skip
"""Where OpenAI and compatible servers, Anthropic, Bedrock, Gemini and Ollama count the tokens of a
call: the record, the numbers whose sum is the input, the output, the total of both."""


@dataclass(slots=True)
class Received:
    """The raw answer to one call; a later answer to the same call replaces an earlier one."""

    status: int | None = None
    """None where no answer came."""
    request: Any = None
    """The request that was answered."""
    body: bytearray = field(default_factory=bytearray)
    is_whole: bool = True

    def begin(self, request: Any, status: int) -> None:
        """Begin an answer; an earlier one is dropped."""
        self.status, self.request, self.body, self.is_whole = status, request, bytearray(), True

    def add(self, chunk: bytes) -> None:
        """Add the next part of the answer."""
        self.is_whole = self.is_whole and len(self.body) + len(chunk) <= MOST_KEPT_BYTES
        if self.is_whole:
            self.body += chunk
        else:
            self.body.clear()

    @property
    def record(self) -> Mapping[str, Any]:
        """The object that came with a status of success; empty where there is none."""
        if self.status is None or self.status >= 300:
            return {}
        whole = bytes(self.body)
        # Gateways send comments while they wait, and an error as the last line of a stream.
        lines = (line.removeprefix(b"data:") for line in reversed(whole.splitlines()))
        return next(filter(None, map(_object_in, (whole, *lines))), {})


_CURRENT: ContextVar[Received | None] = ContextVar("received", default=None)


def _object_in(text: bytes) -> dict[str, Any]:
    """The object in a JSON text; empty where it holds anything else."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return data if isinstance(data, dict) else {}


@contextmanager
def keep_answer_in(received: Received) -> Iterator[None]:
    """Keep the raw answer of the call that is made inside."""
    token = _CURRENT.set(received)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def current_received() -> Received | None:
    """Where the raw answer of the current call is kept, if there is a call."""
    return _CURRENT.get()


def tokens_in(record: Mapping[str, Any]) -> Used | None:
    """The token count in a provider's own answer; None where it has none that can be right."""
    for place, parts, answered, total in COUNTS:
        counted = record.get(place) if place else record
        if not isinstance(counted, Mapping) or not counted.get(parts[0]):
            continue
        named = [counted[name] for name in (*parts, answered, total) if counted.get(name)]
        if not all(type(number) is int and 0 <= number <= MOST_TOKENS for number in named):
            return None
        sent = sum(counted.get(part) or 0 for part in parts)
        # Some providers count thoughts in the total alone.
        output = max(counted.get(answered) or 0, (counted.get(total) or 0) - sent)
        return Used(sent, output) if output or counted.get(answered) == 0 else None
    return None
