"""Values at paths of data: their equality, and their words in messages."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from loopkit.document.problems import did_you_mean
from loopkit.language.guard import select
from loopkit.language.guard.paths import ITEMS
from loopkit.language.json_schema.equality import canonical
from loopkit.text import one_line
from loopkit.text.json_text import text_or_json

MAX_HINTS = 10
"""The number of unknown values for which a similar known value is suggested."""
CHOICES_CHARS = 3_000
"""The number of characters of known values among which a similar one is looked for."""
LARGE = sys.hash_info.modulus
"""From here on different numbers may share a hash, which makes a table of them slow."""
ENDS = (("from", "to"), ("source", "target"))
"""The keys for the ends of an edge that is written by itself."""
PAIR = "write it as [FROM, TO] or {from: FROM, to: TO}"
Same = tuple[str, Any]
"""A kind and a value; values of one kind can be ordered."""


def values_at(path: str | None, data: object) -> Iterator[tuple[str, object]]:
    """The single values to which a path leads, each with its location, without None.

    A list gives its items and a mapping its keys, unless the path already ends in items: `nodes`
    gives the keys of a mapping, `nodes[]` the mappings. Raises GuardError.
    """
    is_item = path is not None and path.endswith(ITEMS)
    for location, value in [("", data)] if path is None else select(path, data):
        if is_item:
            inner = [(location, value)]
        elif isinstance(value, list | tuple):
            inner = [(f"{location}[{index}]", item) for index, item in enumerate(value)]
        elif isinstance(value, Mapping):
            inner = [(f"{location}.{key}" if location else str(key), key) for key in value]
        else:
            inner = [(location, value)]
        yield from ((place, item) for place, item in inner if item is not None)


def same_as(value: object) -> Same | None:
    """A key that equal values share: 1 equals 1.0; true is not a number. None for a non-scalar."""
    match value:
        case bool():
            return "truth", value
        case int() | float() if abs(value) < LARGE:
            return "number", value
        case int() | float():
            return "large number", canonical(value)
        case str():
            return "text", value
        case _:
            return None


def value_text(value: object) -> str:
    """A value for a sentence: in quotes if its white space would be invisible otherwise."""
    if isinstance(value, str) and value.split(" ") != value.split():
        return one_line(json.dumps(value, ensure_ascii=False))
    return one_line(text_or_json(value))


def choices(known: Iterable[object]) -> list[str]:
    """The texts of the first known values, up to CHOICES_CHARS characters."""
    words: list[str] = []
    left = CHOICES_CHARS
    for value in known:
        words.append(value_text(value))
        left -= len(words[-1])
        if left < 0:
            break
    return words


def unknown(message: str, value: object, known: Sequence[str]) -> str:
    """The message about an unknown value, with a suggestion from the known ones."""
    remedy = did_you_mean(value_text(value), known)
    return f"{message}; {remedy}" if remedy else message


def ends_of(value: object) -> tuple[object, object] | None:
    """The ends of an edge that is written by itself; None for a value that is not an edge."""
    match value:
        case [start, end]:
            return start, end
        case Mapping():
            found = ((a, b) for a, b in ENDS if a in value and b in value)
            return next(((value[a], value[b]) for a, b in found), None)
    return None
