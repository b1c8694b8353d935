"""JSON Schemas of answers, in the form that providers accept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from loopkit.language.json_schema.local import part_at, parts, steps_of

STRICT = frozenset(
    {
        "$defs", "$ref", "additionalProperties", "anyOf", "const", "description", "enum",
        "exclusiveMaximum", "exclusiveMinimum", "format", "items", "maxItems", "maximum",
        "minItems", "minimum", "multipleOf", "pattern", "properties", "required", "title", "type",
    }
)  # fmt: skip
"""The words that a strict schema may have."""
TELLING = frozenset({"type", "anyOf", "enum", "const", "$ref"})
"""One of these says in each part of a strict schema what is there."""


def native_form(schema: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The schema as one of an object whose parts are its `$defs`; none where it is none.

    Providers refuse a schema of anything else, and what refers to other places.
    """
    steps = steps_of(schema["$ref"]) if isinstance(schema.get("$ref"), str) else None
    root = part_at(schema, steps) if steps else None
    if isinstance(root, Mapping):
        schema = {**root, **{word: inner for word, inner in schema.items() if word != "$ref"}}
    is_object = schema.get("type") == "object"
    return schema if is_object and all(map(_is_near, parts(schema))) else None


def _is_near(part: Mapping[str, Any]) -> bool:
    """Whether a part refers to nothing but the root and its definitions."""
    steps = steps_of(str(part.get("$ref", "#")))
    return steps is not None and (not steps or (steps[0] == "$defs" and len(steps) == 2))


def is_closed(schema: object) -> bool:
    """Whether every object in a schema has all its fields required and no others.

    Only then, and where it has no words but those of STRICT, does OpenAI take it as strict;
    elsewhere the mark changes nothing.
    """
    return all(map(_is_strict, parts(schema)))


def _is_strict(part: Mapping[str, Any]) -> bool:
    if not part.keys() <= STRICT or part.keys().isdisjoint(TELLING) or _is_open(part):
        return False
    is_object = part.get("type") == "object" or "properties" in part
    is_whole = set(part.get("properties", ())) == set(part.get("required", ()))
    return not is_object or (part.get("additionalProperties") is False and is_whole)


def _is_open(part: Mapping[str, Any]) -> bool:
    """Whether something in it may be anything, or a reference has words beside it."""
    anything = True in part.get("properties", {}).values() or part.get("items") is True
    return anything or ("$ref" in part and not part.keys() <= {"$ref", "$defs"})
