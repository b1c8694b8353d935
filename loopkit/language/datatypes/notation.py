"""The notation of types: a value in a file → the data type that it means."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from loopkit.document.problems import did_you_mean
from loopkit.language.datatypes.datatype import SCALARS, DataType, NotationError, default_fault
from loopkit.language.datatypes.known import from_schema
from loopkit.language.json_schema import schema_faults
from loopkit.language.json_schema.local import relocate

DETAILS = frozenset({"type", "default", "minimum", "maximum", "description"})
JSON_TYPES = frozenset({"string", "integer", "number", "boolean", "object", "array", "null"})
JSON_WORDS = ("$ref", "$defs", "$schema", "$id", "$comment", "$anchor", "$dynamicRef")
FORMS = ("anyOf", "oneOf", "allOf", "enum")
OTHERS = "..."
"""The field of a record that says what its other fields may be."""
OTHER_WORDS = {
    **{theirs: ours for ours, theirs in SCALARS.items()},
    "text": "str",
    "float": "num",
    "double": "num",
}
"""The words of other notations for single values, and those of this language."""
WORD = re.compile(r"[A-Za-z0-9_.-]+(?: [A-Za-z0-9_.-]+)*")
FILE = re.compile(r"[^|]+\.(?:json|ya?ml)")


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


def parse_fields(notation: Mapping[str, Any]) -> DataType:
    """The type at a root, as under `schema:`: JSON Schema, or else a record of these fields."""
    try:
        text = json.dumps(notation)
    except (TypeError, ValueError):
        return _root(notation)  # which tells what of it is no JSON
    return _root_from_json(text)


@lru_cache(maxsize=256)
def _root_from_json(text: str) -> DataType:
    """Cached, because the same notation is parsed at every place that needs its type."""
    return _root(json.loads(text))


def _root(notation: Mapping[str, Any]) -> DataType:
    return from_schema(notation) if is_json_schema(notation) else _record_of(notation)


def parse_record(notation: Mapping[str, Any]) -> DataType:
    """The type at a root that must be a mapping, as under `input:`."""
    datatype = parse_fields(notation)
    if datatype.fields is None:
        raise NotationError("this JSON Schema does not describe a mapping: it needs `type: object`")
    return datatype


def is_json_schema(notation: Mapping[str, Any]) -> bool:
    """Whether a mapping is JSON Schema: it has a keyword that the notation lacks."""
    kind = notation.get("type")
    kinds = kind if isinstance(kind, list) and kind else [kind]
    if all(isinstance(word, str) and word in JSON_TYPES for word in kinds):
        return True
    lists = any(isinstance(notation.get(word), list) for word in FORMS)
    return lists or any(word in notation for word in JSON_WORDS)


def field_place(notation: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """The place of a field of the type at a root."""
    return ("properties", name) if is_json_schema(notation) else (name,)


def file_places(notation: object, *, is_root: bool = True) -> Iterator[tuple[str | int, ...]]:
    """Where `{file: PATH}` stands for a type, below a root or at it."""
    match notation:
        case {"file": str() as file, **rest} if not rest and FILE.fullmatch(file):
            yield ()
        case _ if not (isinstance(notation, Mapping) and is_json_schema(notation)):
            for step, inner in inner_types(notation, is_root=is_root):
                yield from ((step, *place) for place in file_places(inner, is_root=False))


def inner_types(notation: object, *, is_root: bool) -> Iterator[tuple[str | int, Any]]:
    """The notations inside a notation, each with its step; a default is not one of them."""
    match notation:
        case [inner]:
            yield 0, inner
        case Mapping():
            is_described = not is_root and "type" in notation and set(notation) <= DETAILS
            inside = notation.items()
            yield from (item for item in inside if not (is_described and item[0] == "default"))


def default_places(notation: object, *, is_root: bool = True) -> Iterator[tuple[str | int, ...]]:
    """The places of types with a default, below a root."""
    match notation:
        case [inner]:
            yield from ((0, *place) for place in default_places(inner, is_root=False))
        case Mapping():
            is_described = not is_root and "type" in notation and "default" in notation
            yield from [()] if is_described else []
            for key, inner in notation.items():
                if not (is_described and key == "default"):
                    yield from ((key, *place) for place in default_places(inner, is_root=False))


def _from_words(text: str) -> DataType:
    if text.startswith("optional "):
        return _optional(_from_words(text.removeprefix("optional ").strip()))
    if text.startswith("[") and text.endswith("]"):
        return _list_of(_from_words(text[1:-1].strip()))
    if text == "any":
        return DataType({})
    if json_type := SCALARS.get(text):
        return DataType({"type": json_type}, scalar=text)
    if "|" in text:
        return _choice_of(tuple(word.strip() for word in text.split("|")), text)
    meant = OTHER_WORDS.get(text.casefold())
    raise NotationError(f"unknown type `{text}`", remedy=f"write `{meant}`" if meant else "")


def _choice_of(words: tuple[str, ...], text: str) -> DataType:
    if not all(WORD.fullmatch(word) for word in words):
        raise NotationError(f"`{text}` has an empty or unreadable word")
    if len(set(words)) < len(words):
        raise NotationError(f"`{text}` names a word twice")
    return DataType({"type": "string", "enum": list(words)}, scalar="str", values=words)


def _from_mapping(notation: Mapping[str, Any]) -> DataType:
    if is_json_schema(notation):
        _refuse_mixed(notation)
        return from_schema(notation)
    if "type" in notation and set(notation) <= DETAILS:
        return _with_details(notation)
    return _record_with_type(notation) if "type" in notation else _record_of(notation)


def _refuse_mixed(notation: Mapping[str, Any]) -> None:
    """Refuse a type of ours with a keyword that makes the mapping JSON Schema."""
    kind = notation.get("type")
    if not (isinstance(kind, str) and kind in SCALARS):
        return
    keyword = next(word for word in (*FORMS, *JSON_WORDS) if word in notation)
    message = f"`{keyword}` belongs to JSON Schema, which has no type `{kind}`"
    words = notation.get("enum")
    texts = words if isinstance(words, list) and all(isinstance(w, str) for w in words) else ()
    choice = "|".join(texts)
    is_choice = kind == "str" and len(texts) > 1 and all(WORD.fullmatch(word) for word in texts)
    meant = choice if is_choice else SCALARS[kind]
    raise NotationError(
        message, ("type",), f"write `type: {meant}`" + (" without `enum`" if is_choice else "")
    )


def _record_with_type(notation: Mapping[str, Any]) -> DataType:
    """A record that has a field `type`, unless it is a described type with an unknown detail."""
    try:
        return _record_of(notation)
    except NotationError:
        kind = notation["type"]
        if isinstance(kind, str) and kind in SCALARS:
            unknown = min(set(notation) - DETAILS)
            message = f"unknown detail `{unknown}` of a type"
            raise NotationError(
                message, (unknown,), did_you_mean(unknown, sorted(DETAILS))
            ) from None
        raise


def _with_details(notation: Mapping[str, Any]) -> DataType:
    datatype = _at(notation["type"], "type")
    schema = dict(datatype.schema)
    for bound in ("minimum", "maximum"):
        if bound in notation:
            schema[bound] = _bound(bound, notation[bound], datatype)
    if "description" in notation:
        schema["description"] = str(notation["description"])
    datatype = datatype.replace(
        schema=schema, minimum=schema.get("minimum"), maximum=schema.get("maximum")
    )
    low, high = datatype.minimum, datatype.maximum
    if low is not None and high is not None and low > high:
        raise NotationError(f"`minimum` {low} is above `maximum` {high}", ("minimum",))
    return _with_default(datatype, notation["default"]) if "default" in notation else datatype


def _bound(name: str, value: object, datatype: DataType) -> int | float:
    if datatype.scalar not in ("int", "num"):
        raise NotationError(f"`{name}` is for numbers only", (name,))
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise NotationError(f"`{name}` must be a number", (name,))
    if datatype.scalar == "int" and value != int(value):
        raise NotationError(f"`{name}` of an int must be a whole number", (name,))
    return value


def _with_default(datatype: DataType, default: object) -> DataType:
    fault = default_fault(default, datatype)
    if datatype.scalar is None:
        fault = next((message for _, message in schema_faults(default, datatype.schema)), "")
    if fault:
        raise NotationError(f"the default does not fit the type: {fault}", ("default",))
    return datatype.replace(default=default, has_default=True)


def _record_of(notation: Mapping[str, Any]) -> DataType:
    torn = next((n for n, inner in notation.items() if inner is None and " " in n), None)
    if torn is not None:
        message = f"the comma ends the text before it, so `{torn}` is taken for a field"
        raise NotationError(message, (torn,), "put the whole text in quotes")
    types = {name: _at(inner, name) for name, inner in notation.items()}
    others = types.pop(OTHERS, None)
    schema = {
        "type": "object",
        "properties": {name: relocate(t.schema, ("properties", name)) for name, t in types.items()},
        "required": [name for name, inner in types.items() if inner.required],
        "additionalProperties": False
        if others is None
        else relocate(others.schema, ("additionalProperties",)),
    }
    return DataType(schema, fields=types, others=others)


def _list_of(inner: DataType) -> DataType:
    return DataType({"type": "array", "items": relocate(inner.schema, ("items",))}, items=inner)


def _optional(inner: DataType) -> DataType:
    forms = [relocate(inner.schema, ("anyOf", 0)), {"type": "null"}]
    return inner.replace(schema={"anyOf": forms}, optional=True)


def _at(notation: object, step: str | int) -> DataType:
    try:
        return parse_type(notation)
    except NotationError as error:
        raise NotationError(error.message, (step, *error.path), error.remedy) from error
