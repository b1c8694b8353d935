"""Records: values that are stored as JSON.

Constructing one checks nothing, because only loopkit does it; data from outside is checked when it
is read. Keys that this version does not know are left out.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

import msgspec

from loopkit.values import Value


class Record(Value, frozen=True, kw_only=True):
    """What all records have in common."""

    def plain(self) -> dict[str, Any]:
        """The record as JSON data."""
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


@cache
def _decoder(noun: type[Any]) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(noun)


__all__ = ["Record", "encode", "read_record"]
