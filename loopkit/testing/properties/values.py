"""Strategies for values of the types that a machine declares."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any

from loopkit.language.datatypes import DataType
from loopkit.language.json_schema import fits
from loopkit.testing.properties.library import strategies as st
from loopkit.testing.properties.samples import Hints, samples

MOST_SAMPLES = 40
MOST_ITEMS = 3
FAR = 1000
"""The most that a number differs from its only bound, or from 0."""
TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)


def value_of(datatype: DataType, words: Sequence[str] = ()) -> st.SearchStrategy[Any]:
    """Values that the type takes; `words` are texts that a condition may look for."""
    made = _of(datatype, words)
    return made.filter(lambda value: fits(value, datatype.schema))


def _of(datatype: DataType, words: Sequence[str]) -> st.SearchStrategy[Any]:
    if datatype.optional and datatype.scalar is not None and not datatype.is_left_out:
        return st.none() | _scalar(datatype, words)
    if datatype.scalar is not None:
        return _scalar(datatype, words)
    if datatype.fields is not None:
        return _record(datatype, words)
    if datatype.items is not None:
        return st.lists(_of(datatype.items, words), max_size=MOST_ITEMS)
    return _from_samples(datatype, words)


def _record(datatype: DataType, words: Sequence[str]) -> st.SearchStrategy[Any]:
    fields = datatype.fields or {}
    made = {name: _of(field, words) for name, field in fields.items()}
    needed = {name: made[name] for name, field in fields.items() if field.required}
    others = {name: made[name] for name in made if name not in needed}
    return st.fixed_dictionaries(needed, optional=others)


def _scalar(datatype: DataType, words: Sequence[str]) -> st.SearchStrategy[Any]:
    if datatype.values:
        return st.sampled_from(datatype.values)
    match datatype.scalar:
        case "bool":
            return st.booleans()
        case "int":
            return st.integers(*map(int, _ends(datatype)))
        case "num":
            return st.floats(*_ends(datatype))
        case _ if datatype.schema.keys() <= {"type", "title", "description", "default", "anyOf"}:
            return st.sampled_from(words) | TEXT if words else TEXT
        case _:
            return _from_samples(datatype, words)


def _ends(datatype: DataType) -> tuple[float, float]:
    low, high = datatype.minimum, datatype.maximum
    return (
        low if low is not None else min(0, high or 0) - FAR,
        high if high is not None else max(0, low or 0) + FAR,
    )


def _from_samples(datatype: DataType, words: Sequence[str]) -> st.SearchStrategy[Any]:
    """For a type in plain JSON Schema: the first few values that fit it."""
    found = list(islice(samples(datatype, Hints("1", words)), MOST_SAMPLES))
    return st.sampled_from(found) if found else st.nothing()
