"""Records: values that are stored as JSON.

Making one checks nothing, because only loopkit makes them; what comes from outside is checked
when it is read. A record may have keys that this version does not know: they are left out.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

import msgspec

from loopkit.values import Value


class Record(Value, frozen=True, kw_only=True, gc=False):
    """What all records have in common.

    They hold data and each other, but never themselves, so that Python need not look for circles.
    """

    def plain(self) -> dict[str, Any]:
        """The record as JSON data."""
        data: dict[str, Any] = msgspec.to_builtins(self, str_keys=True, enc_hook=_plain_text)
        return data

    def to_json(self) -> str:
        """The record as JSON; raises UnicodeEncodeError where a text holds half a character."""
        return encode(self).decode()


R = TypeVar("R", bound=Record)


def read_record(noun: type[R], data: str | bytes) -> R:
    """The record of a JSON text; raises ValueError where it is none."""
    record: R = _decoder(noun).decode(data)
    return record


def _plain_text(value: object) -> str:
    # Texts with fields are texts to everybody but a template.
    if isinstance(value, str):
        return str(value)
    raise TypeError(f"{type(value).__name__} is not JSON data")


encode: Callable[[Record], bytes] = msgspec.json.Encoder(enc_hook=_plain_text).encode
"""The same as bytes of UTF-8."""


@cache
def _decoder(noun: type[Any]) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(noun)


__all__ = ["Record", "encode", "read_record"]
