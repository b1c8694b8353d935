"""Records: values that are stored as JSON, among them usages and failures.

Constructing one checks nothing, because only loopkit does it; data from outside is checked when it
is read. Keys that this version does not know are left out.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Literal, TypeVar

import msgspec

from loopkit.language.section import ErrorClass
from loopkit.values import Value


class Record(Value, frozen=True, kw_only=True):
    """What all records have in common."""

    def plain(self) -> dict[str, Any]:
        data: dict[str, Any] = msgspec.to_builtins(self, str_keys=True, enc_hook=_plain_text)
        return data

    def to_json(self) -> str:
        """The record as JSON; raises UnicodeEncodeError if a text holds half a character."""
        return encode(self).decode()


R = TypeVar("R", bound=Record)


def read_record(noun: type[R], data: str | bytes) -> R:
    """The record of a JSON text; raises ValueError if the text is not one."""
    record: R = _decoder(noun).decode(data)
    return record


def _plain_text(value: object) -> str:
    # A text with fields is a plain text everywhere but in templates.
    if isinstance(value, str):
        return str(value)
    raise TypeError(f"{type(value).__name__} is not JSON data")


encode: Callable[[Record], bytes] = msgspec.json.Encoder(enc_hook=_plain_text).encode
"""A record as UTF-8 bytes of JSON."""


_decoder = cache(msgspec.json.Decoder)


WORST_CLASS: tuple[ErrorClass, ...] = ("fatal", "content", "transient")


class Usage(Record, frozen=True, kw_only=True):
    """The usage of calls: counts, input and output tokens together, USD, and seconds of work."""

    agent_calls: int = 0
    tool_calls: int = 0
    tokens: int = 0
    cost_usd: float | None = 0.0
    """The cost in USD: null if unknown, 0 only if it is free."""
    time_s: float = 0.0
    held_tokens: int = 0
    """The part of `tokens` that is only held: reserved for calls whose tokens nobody counted."""
    held_usd: float = 0.0
    """The part of `cost_usd` that is only held."""

    @property
    def as_held(self) -> Usage:
        """A reservation that stays, because what the call really took is not known."""
        return self.replace(held_tokens=self.tokens, held_usd=self.cost_usd or 0.0)

    def plus(self, other: Usage, sign: Literal[1, -1] = 1) -> Usage:
        unknown = self.cost_usd is None or other.cost_usd is None
        return Usage(
            agent_calls=self.agent_calls + sign * other.agent_calls,
            tool_calls=self.tool_calls + sign * other.tool_calls,
            tokens=self.tokens + sign * other.tokens,
            cost_usd=None if unknown else (self.cost_usd or 0.0) + sign * (other.cost_usd or 0.0),
            time_s=self.time_s + sign * other.time_s,
            held_tokens=self.held_tokens + sign * other.held_tokens,
            held_usd=self.held_usd + sign * other.held_usd,
        )

    def minus(self, other: Usage) -> Usage:
        """What is left of a sum without one of its parts; what is unknown stays unknown."""
        return self.plus(other, sign=-1)


class VersionId(Record, frozen=True, kw_only=True):
    """Who wrote a version of an artifact, and which one it is."""

    author: str
    """The state that wrote it; empty for what the run began with."""
    attempt: int
    """The number of the state's work that wrote it, from 1."""
    attempts: int = 0
    """How many times authors had begun to work on it by then. A fallback is not an attempt."""
    version: int = 0
    """The number of this version in the run, from 1, across all authors; 0 if unknown."""
    previous: int = 0
    """The number of the version that was current before it; 0 if there was none."""
    phase: str = ""
    """The phase that an event of the run had named last."""


class RefusedCall(Record, frozen=True, kw_only=True):
    """A call that did not fit in a limit."""

    agent: str
    place: str
    task: str
    """The piece of work that the call was for."""
    reserved: Usage
    """The maximum usage of the call."""


class Failure(Value, frozen=True):
    """It is made once, where something fails, and passed on as it is.

    The records that store it (`Failed`, `Answer`, `Worked`, `Suspended`) have its fields side by
    side, in their own words.
    """

    error_class: ErrorClass | Literal["limit"]
    """Whether another try, another answer or a person can help, or a limit has to be raised."""
    message: str
    """What went wrong."""
    remedy: str = ""
    """What a person can do about it."""
    resume_at: float | None = None
    """Unix time from which it is worth going on, where a provider or a program names one."""
    refused: RefusedCall | None = None
    """With `limit`: the call that was not made."""


MOST_USD = 100_000.0
"""No call costs more; a higher figure of a server or a program is wrong."""
