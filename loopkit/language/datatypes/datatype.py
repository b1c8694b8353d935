"""A data type: a JSON Schema for data, and what guards and templates know of it.

Data is checked against its type, and completed with defaults.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from loopkit.document.problems import is_slip
from loopkit.language.guard.evaluate import ITEMS
from loopkit.language.json_schema import Path, broken_fields, schema_faults
from loopkit.text import one_line
from loopkit.text.json_text import text_or_json
from loopkit.values import Value

SCALARS = {"str": "string", "int": "integer", "num": "number", "bool": "boolean"}
"""The words for single values, and what JSON Schema calls them."""
PYTHON_TYPES: Mapping[str, tuple[type, ...]] = {
    "str": (str,),
    "int": (int,),
    "num": (int, float),
    "bool": (bool,),
}


class NotationError(ValueError):
    """A type that cannot be read; `path` leads to the part that is wrong.

    `remedy` says what to write instead, where that is known.
    """

    def __init__(self, message: str, path: tuple[str | int, ...] = (), remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.path = path
        self.remedy = remedy


class DataType(Value, frozen=True):
    """A type as both sides need it: JSON Schema for data, facts for the checks."""

    schema: Mapping[str, Any]
    """Complete in itself: it refers to nothing outside."""
    scalar: str | None = None
    """`str`, `int`, `num` or `bool`; none for lists, mappings and what may be anything."""
    values: tuple[str, ...] = ()
    """The words that there are, where they are known."""
    optional: bool = False
    """It may be none, or not there, which reads as none."""
    is_left_out: bool = False
    """A missing value stays missing, because the schema does not allow null."""
    default: Any = None
    has_default: bool = False
    minimum: float | None = None
    maximum: float | None = None
    fields: Mapping[str, DataType] | None = None
    others: DataType | None = None
    """The type of further fields, which may be read like the others."""
    is_open: bool = False
    """It keeps further fields, of which nothing is known and which nothing may read."""
    items: DataType | None = None
    is_file: bool = False
    """It is given as the path of a file, and read: `path`, `data` and `digest`."""

    @property
    def required(self) -> bool:
        return not self.optional and not self.has_default

    @property
    def is_anything(self) -> bool:
        """Whether it may as well be a text as data."""
        return not (self.scalar or self.values or self.fields is not None or self.items)

    @property
    def bounded(self) -> bool:
        """A whole number with both ends known, so that the proof can try each value."""
        return self.scalar == "int" and self.minimum is not None and self.maximum is not None

    @property
    def bounds_in_words(self) -> list[str]:
        """`at least 1`, `at most 9`: the ends that are known."""
        ends = (("least", self.minimum), ("most", self.maximum))
        return [f"at {which} {end:g}" for which, end in ends if end is not None]

    def field(self, name: str) -> DataType | None:
        """The type of a field; none if there is no such field or its type is unknown."""
        return (self.fields or {}).get(name, self.others)

    def at(self, steps: Iterable[str]) -> DataType | None:
        """The type at the end of a path of fields, and of `[]` for the items of lists."""
        found: DataType | None = self
        for step in steps:
            found = found and (found.items if step == ITEMS else found.field(step))
        return found


def describe_type(datatype: DataType) -> str:
    """A type in a few words for a person who fills in a form: `print|web, default web`."""
    kind = "path of a file" if datatype.is_file else datatype.scalar or "JSON"
    words = ["|".join(datatype.values) or kind, *datatype.bounds_in_words]
    if datatype.has_default:
        words.append(f"default {json.dumps(datatype.default, ensure_ascii=False)}")
    if datatype.optional:
        words.append("optional")
    if about := datatype.schema.get("description"):
        words.append(str(about))
    return ", ".join(words)


WORDS = {"int": "a whole number", "num": "a number", "bool": "true or false", "str": "a text"}


def misfit(value: object, datatype: DataType) -> str:
    """Why a value is not a single value of a type, for a person; "" if it is one."""
    if datatype.is_file:
        return "" if value and isinstance(value, str) else "takes the path of a file"
    if not default_fault(value, datatype):
        return ""
    return f"{what_it_takes(datatype)}; `{one_line(text_or_json(value))}` is not"


def what_it_takes(datatype: DataType) -> str:
    """The values that a type of single values takes, for a person: `takes a whole number`."""
    kinds = " or ".join(f"`{one}`" for one in datatype.values) or WORDS[datatype.scalar or "str"]
    return f"takes {', '.join((kinds, *datatype.bounds_in_words))}"


def single_values(datatype: DataType, prefix: str = "") -> Iterator[tuple[str, DataType]]:
    """The single values in data of a type by their dotted names, as guards may read them.

    What lies in a part that may not be there may not be there either.
    """
    for name, inner in (datatype.fields or {}).items():
        if "." in name:
            # Its dotted name would lead elsewhere.
            continue
        if inner.scalar is not None:
            yield prefix + name, inner
        for dotted, known in single_values(inner, f"{prefix}{name}."):
            yield dotted, known.replace(optional=True) if inner.optional else known


def facts_of(data: object, datatype: DataType, prefix: str = "") -> dict[str, object]:
    """The single values of conforming data by dotted name; a missing one is none."""
    names = (name for name, _ in single_values(datatype))
    return {f"{prefix}{name}": value_at(data, name.split(".")) for name in names}


def value_at(data: object, steps: Iterable[str]) -> object:
    """The value at the end of a path of fields; none where the path leads nowhere."""
    for step in steps:
        data = data.get(step) if isinstance(data, Mapping) else None
    return data


def default_fault(default: object, datatype: DataType) -> str:
    """Why a default is not a single value of a type; here, so that `check` needs no jsonschema.

    "" for a type that is not of single values.
    """
    kind = datatype.scalar
    if kind is None or (default is None and datatype.optional):
        return ""
    is_bool = isinstance(default, bool)
    if not isinstance(default, PYTHON_TYPES[kind]) or is_bool is not (kind == "bool"):
        return f"`{text_or_json(default)}` is not of type {kind}"
    if datatype.values and default not in datatype.values:
        return f"`{default}` is none of {', '.join(datatype.values)}"
    low, high = datatype.minimum, datatype.maximum
    if isinstance(default, int | float) and (
        (low is not None and default < low) or (high is not None and default > high)
    ):
        return f"{default} is outside its bounds"
    return ""


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


_MISSING = re.compile(r": ('([^']+)' is a required property)$")


def fault_texts(faults: Sequence[tuple[str, str]]) -> list[str]:
    """Faults for a message, each with its location; that of a missing field has its name."""
    return [
        _MISSING.sub(r".\2: \1", f"{where}: {what}") if where else what for where, what in faults
    ]


_LACKS = re.compile(r"'(.+)' is a required property")


def violation(where: str, what: str) -> tuple[str, str]:
    """The field that a fault is about, and a sentence that names it: `total` is missing."""
    if lacks := _LACKS.fullmatch(what):
        field = f"{where}.{lacks[1]}" if where else lacks[1]
        return field, f"`{field}` is missing"
    return where, f"{where}: {what}" if where else what


def with_defaults(value: object, datatype: DataType) -> object:
    """The value with defaults, or none for optional fields, wherever a field is missing.

    Null for what always has a value is a missing value.
    """
    if value is None and datatype.has_default and not datatype.optional:
        return with_defaults(datatype.default, datatype)
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


def near_misses(value: object, datatype: DataType) -> Iterator[tuple[Path, str]]:
    """The fields of data that no type names and that are one slip away from one left out.

    Each is the steps to what was given, and the name of the optional or defaulted field.
    """
    if isinstance(value, Mapping) and datatype.fields is not None:
        absent = [n for n, t in datatype.fields.items() if n not in value and not t.required]
        for name, inner in value.items():
            if known := datatype.field(name):
                yield from (((name, *path), meant) for path, meant in near_misses(inner, known))
            elif datatype.is_open:
                yield from (((name,), meant) for meant in absent if is_slip(name, meant))
    elif isinstance(value, list) and datatype.items is not None:
        for index, item in enumerate(value):
            found = near_misses(item, datatype.items)
            yield from (((index, *path), meant) for path, meant in found)


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
