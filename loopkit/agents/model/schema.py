"""JSON Schemas of answers, in the form that providers accept."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from loopkit.language.json_schema.local import part_at, parts, rewrite, steps_of
from loopkit.text.json_text import NoJson, parse_output

STRICT = frozenset(
    {
        "$defs", "$ref", "additionalProperties", "anyOf", "const", "description", "enum",
        "exclusiveMaximum", "exclusiveMinimum", "format", "items", "maxItems", "maximum",
        "minItems", "minimum", "multipleOf", "pattern", "properties", "required", "title", "type",
    }
)  # fmt: skip
"""The words that a strict schema may have."""
TYPE_WORDS = frozenset({"type", "anyOf", "enum", "const", "$ref"})
"""Each part of a strict schema has one of these words, which says what is there."""


def native_form(schema: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The schema as that of an object whose parts are its `$defs`; None where it has no such form.

    Providers refuse a schema of anything else, and references to other places.
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
    if not part.keys() <= STRICT or part.keys().isdisjoint(TYPE_WORDS) or _is_open(part):
        return False
    is_object = part.get("type") == "object" or "properties" in part
    is_whole = set(part.get("properties", ())) == set(part.get("required", ()))
    return not is_object or (part.get("additionalProperties") is False and is_whole)


def _is_open(part: Mapping[str, Any]) -> bool:
    """Whether something in a part may be anything, or a reference has words beside it."""
    anything = True in part.get("properties", {}).values() or part.get("items") is True
    return anything or ("$ref" in part and not part.keys() <= {"$ref", "$defs"})


def strict_form(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema with every field required, and null for those that may be left out.

    The schema itself is returned if that would not make it strict.
    """

    def change(part: Mapping[str, Any]) -> dict[str, Any]:
        # A default is for a field that is left out, and no field is left out here.
        kept = {word: value for word, value in part.items() if word != "default"}
        fields = part.get("properties")
        if not isinstance(fields, Mapping):
            return kept
        added = set(_omittable_fields(part, schema))
        nullable = {
            n: {"anyOf": [f, {"type": "null"}]} if n in added else f for n, f in fields.items()
        }
        return {**kept, "properties": nullable, "required": list(fields)}

    strict: Mapping[str, Any] = rewrite(schema, change)
    return strict if is_closed(strict) else schema


def without_added_nulls(text: str, schema: Mapping[str, Any]) -> str:
    """An answer without the nulls that only the strict form of its schema allowed."""
    answer = parse_output(text)
    if isinstance(answer, NoJson) or strict_form(schema) is schema:
        return text
    kept = _without_added(answer, schema, schema)
    return text if kept == answer else json.dumps(kept, ensure_ascii=False)


def _omittable_fields(part: Mapping[str, Any], root: Mapping[str, Any]) -> Iterator[str]:
    """The fields of an object that may be left out, but not be null."""
    required = part.get("required", ())
    for name, field in part.get("properties", {}).items():
        if name not in required and not _takes_null(field, root):
            yield name


def _takes_null(part: Any, root: Mapping[str, Any]) -> bool:
    """Whether null fits a part; it does if the part may be anything."""
    if not isinstance(part, Mapping):
        return part is True
    for option in _options(part, root):
        kind = option.get("type")
        words = {"enum": option.get("enum", [None]), "const": [option.get("const")]}
        is_typed = "null" in (kind if isinstance(kind, list) else [kind]) or kind is None
        if is_typed and all(None in words[word] for word in words.keys() & option.keys()):
            return True
    return False


def _options(part: Mapping[str, Any], root: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The alternatives of a part; each reference is followed once."""
    waiting, seen = [part], set[str]()
    while waiting:
        option = waiting.pop()
        reference = option.get("$ref")
        if isinstance(reference, str):
            target = part_at(root, steps_of(reference) or ()) if reference not in seen else None
            seen.add(reference)
            waiting += [target] if isinstance(target, Mapping) else []
        elif isinstance(option.get("anyOf"), list):
            waiting += [inner for inner in option["anyOf"] if isinstance(inner, Mapping)]
        else:
            yield option


def _may_be(value: Mapping[str, Any], fields: Mapping[str, Any]) -> bool:
    """Whether a record may have these fields: it has no others, and fixed words are its own."""
    return value.keys() <= fields.keys() and all(
        given is None or given in _words(fields[name], given) for name, given in value.items()
    )


def _words(field: Any, otherwise: object) -> Sequence[Any]:
    """The values that a field may have, where they are listed."""
    listed = [field["const"]] if isinstance(field, Mapping) and "const" in field else [otherwise]
    return field.get("enum", listed) if isinstance(field, Mapping) else listed


def _without_added(value: Any, part: Any, root: Mapping[str, Any]) -> Any:
    options = list(_options(part, root)) if isinstance(part, Mapping) else []
    if isinstance(value, list):
        items = next((option["items"] for option in options if "items" in option), None)
        return [_without_added(inner, items, root) for inner in value]
    if not isinstance(value, dict):
        return value
    fitting = [o for o in options if _may_be(value, o.get("properties", {}))]
    # A strict answer has all fields of its form, so the smallest fitting form is the right one.
    record = min(fitting, key=lambda option: len(option.get("properties", {})), default={})
    added, fields = set(_omittable_fields(record, root)), record.get("properties", {})
    return {
        name: _without_added(inner, fields.get(name), root)
        for name, inner in value.items()
        if inner is not None or name not in added
    }
