"""The one notation for types: of `input`, of an agent's `schema`, of a `form`.

`str int num bool`, `a|b|c`, `[T]`, `{field: T}`, `optional T`, a mapping whose
`type` is one of these with `default`, `minimum`, `maximum`, `description`, or
JSON Schema taken as such. Each becomes a JSON Schema plus what guards and
templates may know about it without running anything.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from loopkit.json_schema import schema_faults, schema_problem

PYTHON_TYPES: Mapping[str, tuple[type, ...]] = {
    "str": (str,),
    "int": (int,),
    "num": (int, float),
    "bool": (bool,),
}
SCALARS = {"str": "string", "int": "integer", "num": "number", "bool": "boolean"}
DETAILS = frozenset({"type", "default", "minimum", "maximum", "description"})
JSON_TYPES = frozenset({"string", "integer", "number", "boolean", "object", "array", "null"})
COMBINATORS = frozenset({"$ref", "anyOf", "oneOf", "allOf", "enum", "const", "properties", "items"})
WORD = re.compile(r"[A-Za-z0-9_.-]+(?: [A-Za-z0-9_.-]+)*")


class NotationError(ValueError):
    """A type that cannot be read; `path` leads to the part that is wrong."""

    def __init__(self, message: str, path: tuple[str | int, ...] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.path = path


@dataclass(frozen=True, slots=True)
class DataType:
    """A type as both sides need it: JSON Schema for data, facts for the checks."""

    schema: Mapping[str, Any]
    scalar: str | None = None
    """`str`, `int`, `num` or `bool`; none for lists, mappings and free JSON Schema."""
    values: tuple[str, ...] = ()
    """The words of `a|b|c`."""
    optional: bool = False
    default: Any = None
    has_default: bool = False
    minimum: float | None = None
    maximum: float | None = None
    fields: Mapping[str, DataType] | None = None
    items: DataType | None = None

    @property
    def required(self) -> bool:
        return not self.optional and not self.has_default

    @property
    def bounded(self) -> bool:
        """A whole number with both ends known, so that the proof can try each value."""
        return self.scalar == "int" and self.minimum is not None and self.maximum is not None


def parse_type(notation: object) -> DataType:
    """The type that a notation from YAML means; raises NotationError."""
    match notation:
        case str():
            return _from_words(notation.strip())
        case [inner]:
            return _list_of(_at(inner, 0))
        case list() | tuple():
            raise NotationError("a list type holds exactly one type: `[str]`")
        case Mapping():
            return _from_mapping(notation)
        case _:
            raise NotationError(f"{json.dumps(notation, default=str)} is not a type")


def parse_fields(notation: Mapping[str, object]) -> DataType:
    """The object type of a mapping from field to notation, as under `input:`."""
    return _object_of(notation)


def described(datatype: DataType) -> str:
    """A type in a few words for a person who fills in a form: `print|web, default web`."""
    low, high = datatype.minimum, datatype.maximum
    words = ["|".join(datatype.values) or datatype.scalar or "JSON"]
    words += [f"at least {low:g}"] if low is not None else []
    words += [f"at most {high:g}"] if high is not None else []
    words += [f"default {json.dumps(datatype.default)}"] if datatype.has_default else []
    words += ["optional"] if datatype.optional else []
    if about := datatype.schema.get("description"):
        words.append(str(about))
    return ", ".join(words)


def is_field_mapping(notation: object) -> bool:
    """Whether a mapping is `{field: T}` rather than a described type or JSON Schema."""
    return (
        isinstance(notation, Mapping)
        and not _is_described(notation)
        and not is_json_schema(notation)
    )


def conform(value: object, datatype: DataType) -> tuple[object, list[tuple[str, str]]]:
    """The value with defaults filled in, and its faults as (location, message) pairs."""
    filled = _with_defaults(value, datatype)
    if not_finite := _not_finite(filled, ""):
        return filled, not_finite
    return filled, schema_faults(filled, datatype.schema)


def _from_words(text: str) -> DataType:
    if text.startswith("optional "):
        return _optional(_from_words(text.removeprefix("optional ").strip()))
    if text.startswith("[") and text.endswith("]"):
        return _list_of(_from_words(text[1:-1].strip()))
    if json_type := SCALARS.get(text):
        return DataType({"type": json_type}, scalar=text)
    if "|" in text:
        return _choice_of(tuple(word.strip() for word in text.split("|")), text)
    raise NotationError(f"unknown type `{text}`")


def _choice_of(words: tuple[str, ...], text: str) -> DataType:
    if not all(WORD.fullmatch(word) for word in words):
        raise NotationError(f"`{text}` has an empty or unreadable word")
    if len(set(words)) < len(words):
        raise NotationError(f"`{text}` names a word twice")
    return DataType({"type": "string", "enum": list(words)}, scalar="str", values=words)


def _from_mapping(notation: Mapping[str, Any]) -> DataType:
    if _is_described(notation):
        return _described(notation)
    if is_json_schema(notation):
        return _from_schema(notation)
    return _object_of(notation)


def _is_described(notation: Mapping[str, Any]) -> bool:
    kind = notation.get("type")
    if isinstance(kind, str) and kind in JSON_TYPES:
        return False
    return (
        "type" in notation
        and not isinstance(kind, Mapping)
        and _reads(kind)
        and (set(notation) <= DETAILS or (isinstance(kind, str) and kind in SCALARS))
    )


def _reads(kind: object) -> bool:
    try:
        parse_type(kind)
    except NotationError:
        return False
    return True


def _is_json_type(word: object) -> bool:
    return isinstance(word, str) and word in JSON_TYPES


def is_json_schema(notation: Mapping[str, Any]) -> bool:
    kind = notation.get("type")
    if isinstance(kind, str) and kind in JSON_TYPES:
        return True
    if isinstance(kind, list) and kind and all(_is_json_type(word) for word in kind):
        return True
    return any(key.startswith("$") for key in notation) or any(
        key in notation and isinstance(notation[key], (list, Mapping))
        for key in ("anyOf", "oneOf", "allOf", "enum")
    )


def _described(notation: Mapping[str, Any]) -> DataType:
    if unknown := sorted(set(notation) - DETAILS):
        raise NotationError(f"unknown detail `{unknown[0]}` of a type", (unknown[0],))
    datatype = _at(notation["type"], "type")
    schema = dict(datatype.schema)
    for bound in ("minimum", "maximum"):
        if bound in notation:
            schema[bound] = _bound(bound, notation[bound], datatype)
    if "description" in notation:
        schema["description"] = str(notation["description"])
    datatype = replace(
        datatype, schema=schema, minimum=schema.get("minimum"), maximum=schema.get("maximum")
    )
    _check_range(datatype)
    return _with_default(datatype, notation["default"]) if "default" in notation else datatype


def _bound(name: str, value: object, datatype: DataType) -> int | float:
    if datatype.scalar not in ("int", "num"):
        raise NotationError(f"`{name}` is for numbers only", (name,))
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise NotationError(f"`{name}` must be a number", (name,))
    if datatype.scalar == "int" and value != int(value):
        raise NotationError(f"`{name}` of an int must be a whole number", (name,))
    return value


def _check_range(datatype: DataType) -> None:
    low, high = datatype.minimum, datatype.maximum
    if low is not None and high is not None and low > high:
        raise NotationError(f"`minimum` {low} is above `maximum` {high}", ("minimum",))


def _with_default(datatype: DataType, default: object) -> DataType:
    if fault := _default_fault(default, datatype):
        raise NotationError(f"the default does not fit the type: {fault}", ("default",))
    return replace(datatype, default=default, has_default=True)


def _default_fault(default: object, datatype: DataType) -> str:
    """Why a default does not fit; scalars are told here, so that `check` needs no jsonschema."""
    if datatype.scalar is None or datatype.optional:
        return next((message for _, message in schema_faults(default, datatype.schema)), "")
    fits = isinstance(default, PYTHON_TYPES[datatype.scalar]) and (
        datatype.scalar == "bool" or not isinstance(default, bool)
    )
    if not fits:
        return f"`{json.dumps(default, default=str)}` is not of type {datatype.scalar}"
    if datatype.values and default not in datatype.values:
        return f"`{default}` is none of {', '.join(datatype.values)}"
    return f"{default} is outside its bounds" if _is_outside(default, datatype) else ""


def _is_outside(number: object, datatype: DataType) -> bool:
    if not isinstance(number, int | float):
        return False
    low, high = datatype.minimum, datatype.maximum
    return (low is not None and number < low) or (high is not None and number > high)


def _from_schema(notation: Mapping[str, Any]) -> DataType:
    if problem := schema_problem(notation):
        raise NotationError(f"not a valid JSON Schema: {problem}", problem.path)
    return _known(notation)


def _known(notation: Mapping[str, Any]) -> DataType:
    words = {json_type: word for word, json_type in SCALARS.items()}
    kind = notation.get("type")
    known = DataType(
        dict(notation), has_default="default" in notation, default=notation.get("default")
    )
    if isinstance(kind, str) and kind in words:
        values = notation.get("enum", ())
        texts = tuple(values) if all(isinstance(value, str) for value in values) else ()
        return replace(
            known,
            scalar=words[kind],
            values=texts,
            minimum=notation.get("minimum"),
            maximum=notation.get("maximum"),
        )
    if kind == "object" and isinstance(notation.get("properties"), Mapping):
        return replace(known, fields=_schema_fields(notation))
    if kind == "array" and isinstance(notation.get("items"), Mapping):
        return replace(known, items=_known(notation["items"]))
    return known


def _schema_fields(notation: Mapping[str, Any]) -> dict[str, DataType]:
    required = set(notation.get("required", ()))
    fields = {}
    for name, inner in notation["properties"].items():
        datatype = _known(inner) if isinstance(inner, Mapping) else DataType({})
        fields[name] = datatype if name in required else replace(datatype, optional=True)
    return fields


def _object_of(notation: Mapping[str, Any]) -> DataType:
    fields = {name: _at(inner, name) for name, inner in notation.items()}
    schema = {
        "type": "object",
        "properties": {name: dict(inner.schema) for name, inner in fields.items()},
        "required": [name for name, inner in fields.items() if inner.required],
        "additionalProperties": False,
    }
    return DataType(schema, fields=fields)


def _list_of(inner: DataType) -> DataType:
    return DataType({"type": "array", "items": dict(inner.schema)}, items=inner)


def _optional(inner: DataType) -> DataType:
    return replace(inner, schema={"anyOf": [dict(inner.schema), {"type": "null"}]}, optional=True)


def _at(notation: object, step: str | int) -> DataType:
    try:
        return parse_type(notation)
    except NotationError as error:
        raise NotationError(error.message, (step, *error.path)) from error


def _with_defaults(value: object, datatype: DataType) -> object:
    if isinstance(value, Mapping) and datatype.fields is not None:
        filled = {
            name: _with_defaults(v, datatype.fields[name]) if name in datatype.fields else v
            for name, v in value.items()
        }
        # An optional field that was not given is none: there for templates and guards.
        missing = {
            n: t.default for n, t in datatype.fields.items() if n not in value and not t.required
        }
        return filled | missing
    if isinstance(value, list) and datatype.items is not None:
        return [_with_defaults(item, datatype.items) for item in value]
    return value


def _not_finite(value: object, location: str) -> list[tuple[str, str]]:
    match value:
        case float() if not math.isfinite(value):
            return [(location, "not a finite number")]
        case Mapping():
            return [
                f for k, v in value.items() for f in _not_finite(v, f"{location}.{k}".lstrip("."))
            ]
        case list():
            return [f for i, v in enumerate(value) for f in _not_finite(v, f"{location}[{i}]")]
        case _:
            return []
