"""The data that templates see, and how it is printed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Set
from types import MappingProxyType
from typing import Self

from jinja2 import Undefined

from loopkit.language.template.errors import Refusal, deep_units, spend


class FieldedText(str):
    """A text that prints as itself and has named fields: `{{ plan }}` and `{{ plan.goal }}`."""

    fields: Mapping[str, object]

    def __new__(cls, text: str, fields: Mapping[str, object] = MappingProxyType({})) -> Self:
        self = super().__new__(cls, text)
        self.fields = MappingProxyType(dict(fields))
        return self

    def __reduce__(self) -> tuple[type[Self], tuple[str, dict[str, object]]]:
        return type(self), (str(self), dict(self.fields))


class Record(dict[str, object]):
    """Data that prints as it was given; a field that it leaves out reads as none."""

    left_out: Set[str]

    def __init__(self, fields: Mapping[str, object], left_out: Set[str] = frozenset()) -> None:
        super().__init__(fields)
        self.left_out = frozenset(left_out)

    def __reduce__(self) -> tuple[type[Self], tuple[dict[str, object], Set[str]]]:
        return type(self), (dict(self), self.left_out)


def to_text(value: object) -> str:
    """Return the value as a prompt shows it: text as it is, none as nothing, data as JSON."""
    if isinstance(value, (str, Undefined)):
        return str(value)
    if value is None:
        return ""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return as_json(value)


def as_json(value: object, indent: int | None = None) -> str:
    """Return the value as JSON with every letter as it is; raise Refusal for what is no data."""
    # Before it is built: data made in a template can hold one list exponentially often.
    spend(deep_units(value))
    encoder = _COMPACT if indent is None else _encoder(indent)
    return encoder.encode(value)


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, range):
        return list(value)
    if isinstance(value, Undefined):
        return str(value)
    message = f"a value of type `{type(value).__name__}` cannot be printed"
    raise Refusal(message, "print text, numbers, lists or fields", code="template-data")


def _encoder(indent: int | None) -> json.JSONEncoder:
    return json.JSONEncoder(ensure_ascii=False, allow_nan=False, indent=indent, default=_plain)


_COMPACT = _encoder(None)
