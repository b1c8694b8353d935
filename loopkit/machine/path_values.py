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
"""For how many unknown values it is said what may have been meant."""
CHOICES_CHARS = 3_000
"""In how many characters of known values one is looked for that was meant."""
LARGE = sys.hash_info.modulus
"""From here on different numbers may have one hash, and a table of such is searched through."""
ENDS = (("from", "to"), ("source", "target"))
"""How the ends of an edge are called that is written by itself."""
PAIR = "write it as [FROM, TO] or {from: FROM, to: TO}"
Same = tuple[str, Any]
"""A kind and a value; of one kind all have an order."""


def values_at(path: str | None, data: object) -> Iterator[tuple[str, object]]:
    """The single values that a path leads to, each with its location; none is no value.

    Of a list these are its items, of a mapping its keys, unless the path goes into its items
    already: `nodes` are those of a mapping, `nodes[]` the mappings. Raises GuardError.
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
    """What equal values have in common: 1 is 1.0, and true is no number. None for no scalar."""
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
    """A value as it is written in a sentence: in quotes where its white space could not be seen."""
    if isinstance(value, str) and value.split(" ") != value.split():
        return one_line(json.dumps(value, ensure_ascii=False))
    return one_line(text_or_json(value))


def choices(known: Iterable[object]) -> list[str]:
    """The words for the first of the known values."""
    words: list[str] = []
    left = CHOICES_CHARS
    for value in known:
        words.append(value_text(value))
        left -= len(words[-1])
        if left < 0:
            break
    return words


def unknown(message: str, value: object, known: Sequence[str]) -> str:
    """The message about a value that is none of the known ones, with what may have been meant."""
    remedy = did_you_mean(value_text(value), known)
    return f"{message}; {remedy}" if remedy else message


def ends_of(value: object) -> tuple[object, object] | None:
    """From where to where an edge leads that is written by itself; None for what is no edge."""
    match value:
        case [start, end]:
            return start, end
        case Mapping():
            found = ((a, b) for a, b in ENDS if a in value and b in value)
            return next(((value[a], value[b]) for a, b in found), None)
    return None
