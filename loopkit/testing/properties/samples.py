"""Small values of a type, the plainest first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, permutations, product
from typing import Any

from loopkit.language.datatypes import DataType
from loopkit.language.json_schema import fits

MOST_VALUES = 150
"""The most values of one type that are tried."""
MOST_FOR_PART = 8
ABSENT = object()
"""The value of a field that is left out."""


@dataclass(frozen=True, slots=True)
class Hints:
    """The texts and numbers from which values are made."""

    label: str
    """A label for texts, such as the number of the attempt, so that two attempts differ."""
    words: Sequence[str] = ()
    """The texts in conditions."""
    numbers: Sequence[float] = ()
    """The numbers in conditions."""


def samples(datatype: DataType, hints: Hints) -> Iterator[Any]:
    """Values of the type."""
    for value in islice(_values(datatype, hints), MOST_VALUES):
        if fits(value, datatype.schema):
            yield value


def smallest(datatype: DataType, hints: Hints) -> Any:
    """The first value of the type; None where none is found."""
    return next(samples(datatype, hints), None)


def _values(datatype: DataType, hints: Hints, name: str = "") -> Iterator[Any]:
    known = datatype.values or datatype.schema.get("enum", ())
    if datatype.optional:
        yield ABSENT if datatype.is_left_out else None
    if known:
        yield from known
    elif datatype.fields is not None:
        parts = {n: list(_some(t, hints, n)) for n, t in datatype.fields.items()}
        yield from _records(parts)
    elif datatype.items is not None:
        items = [v for v in _some(datatype.items, hints, name) if v is not ABSENT]
        yield from (list(chosen) for size in range(3) for chosen in permutations(items, size))
    else:
        yield from _scalars(datatype, hints, name)


def _some(datatype: DataType, hints: Hints, name: str) -> Iterator[Any]:
    return islice(_values(datatype, hints, name), MOST_FOR_PART)


def _records(parts: Mapping[str, Sequence[Any]]) -> Iterator[dict[str, Any]]:
    # Reversed, so that the first fields vary first: they are the ones that matter most.
    names = list(parts)[::-1]
    for chosen in product(*(parts[name] for name in names)):
        record = dict(zip(names, chosen, strict=True))
        yield {name: record[name] for name in parts if record[name] is not ABSENT}


def _scalars(datatype: DataType, hints: Hints, name: str) -> Iterator[Any]:
    match datatype.scalar:
        case "str":
            about = name.replace("_", " ")
            yield f"Suggested {about} {hints.label}" if about else f"Suggested {hints.label}"
            yield from hints.words
            yield ""
        case "bool":
            yield from (False, True)
        case "int" | "num":
            yield from _numbers(datatype, hints)
        case _:
            yield from ({}, [], f"Suggested {hints.label}", 0, None)


def _numbers(datatype: DataType, hints: Hints) -> Iterator[float]:
    low, high = datatype.minimum, datatype.maximum
    ends = [end for end in (low, high) if end is not None]
    for value in dict.fromkeys((*ends, *hints.numbers, 0, 1, 2, 10, 100, -1)):
        is_whole = datatype.scalar == "num" or float(value).is_integer()
        if is_whole and (low is None or value >= low) and (high is None or value <= high):
            yield int(value) if datatype.scalar == "int" else value
