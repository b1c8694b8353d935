"""Conformance: data checked against its type, and completed with defaults."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from loopkit.language.datatypes.datatype import DataType, misfit
from loopkit.language.json_schema import broken_fields, schema_faults


def conform(value: object, datatype: DataType) -> tuple[object, list[tuple[str, str]]]:
    """The value with what it leaves out filled in, and its faults as (location, message) pairs.

    The value is judged as it was given. What is filled in fits as well, so that a filled value
    can be judged again.
    """
    not_finite = list(_not_finite(value, ""))
    return with_defaults(value, datatype), not_finite or schema_faults(value, datatype.schema)


def first_misfit(value: object, datatype: DataType) -> str:
    """Why a value does not fit a type, for a person; "" if it fits. Raises NotJudged."""
    _, faults = conform(value, datatype)
    if not faults:
        return ""
    return misfit(value, datatype) or f"does not fit: {fault_texts(faults)[0]}"


def fault_texts(faults: Sequence[tuple[str, str]]) -> list[str]:
    """Faults for a message, each with its location where it has one."""
    return [f"{where}: {what}" if where else what for where, what in faults]


def with_defaults(value: object, datatype: DataType) -> object:
    """The value with defaults, or none for optional fields, wherever a field is missing."""
    if isinstance(value, Mapping) and datatype.fields is not None:
        given = {
            name: inner if (known := datatype.field(name)) is None else with_defaults(inner, known)
            for name, inner in value.items()
        }
        missing = {
            name: with_defaults(inner.default, inner)
            for name, inner in datatype.fields.items()
            if name not in value and not inner.required and not inner.is_left_out
        }
        return given | missing
    if isinstance(value, list) and datatype.items is not None:
        return [with_defaults(item, datatype.items) for item in value]
    return value


def salvage(value: object, datatype: DataType) -> tuple[object, frozenset[str]]:
    """The record with empty values in place of faulty fields, and the names of these fields."""
    fields = datatype.fields
    if not isinstance(value, Mapping) or fields is None:
        return value, frozenset()
    finite = {name: inner for name, inner in value.items() if not any(_not_finite(inner, ""))}
    wrong = (value.keys() - finite.keys()) | broken_fields(finite, datatype.schema)
    kept = {name: inner for name, inner in value.items() if name not in wrong}
    missing = {n: _empty(t) for n, t in fields.items() if n not in kept and t.required}
    return with_defaults({**kept, **missing}, datatype), frozenset(wrong | missing.keys())


def _empty(datatype: DataType) -> Any:
    """The plainest value of a type that has no default."""
    if datatype.fields is not None:
        return {name: _empty(inner) for name, inner in datatype.fields.items() if inner.required}
    if datatype.items is not None:
        return []
    if datatype.values:
        return datatype.values[0]
    if datatype.scalar in ("int", "num"):
        low, high = datatype.minimum, datatype.maximum
        return min(max(low or 0, 0), 0 if high is None or high < 0 else high) or low or high or 0
    return {"str": "", "bool": False}.get(datatype.scalar or "")


def _not_finite(value: object, location: str) -> Iterator[tuple[str, str]]:
    """Faults of numbers that JSON cannot hold."""
    match value:
        case float() if not math.isfinite(value):
            yield location, "not a finite number"
        case Mapping():
            for key, inner in value.items():
                yield from _not_finite(inner, f"{location}.{key}".lstrip("."))
        case list():
            for index, inner in enumerate(value):
                yield from _not_finite(inner, f"{location}[{index}]")
        case _:
            return
