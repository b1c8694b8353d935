"""`unevaluatedProperties` and `unevaluatedItems`: parts that no keyword covered."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from jsonschema import ValidationError

from loopkit.language.json_schema.judging import judging
from loopkit.language.json_schema.references import look_up
from loopkit.language.json_schema.subschemas import Object, Schema, extras_message, is_valid
from loopkit.language.json_schema.value_keywords import Errors, Keyword, Validator, is_found


def _properties(validator: Validator, schema: Schema, instance: Any, holder: Object) -> Errors:
    if not validator.is_type(instance, "object"):
        return
    known = _evaluated_names(validator, instance, holder)
    extras = [name for name in instance if name not in known]
    wrong = [name for name in extras if not is_valid(validator, instance[name], schema)]
    if wrong:
        said = "allowed" if schema is False else "valid under the given schema"
        yield ValidationError(f"Unevaluated properties are not {said} ({extras_message(wrong)})")


def _items(validator: Validator, schema: Schema, instance: Any, holder: Object) -> Errors:
    if not validator.is_type(instance, "array"):
        return
    known = _evaluated_indexes(validator, instance, holder)
    wrong = [
        item
        for index, item in enumerate(instance)
        if index not in known and not is_valid(validator, item, schema)
    ]
    if wrong:
        yield ValidationError(f"Unevaluated items are not allowed ({extras_message(wrong)})")


def _evaluated_names(validator: Validator, instance: Object, schema: Schema) -> set[str]:
    judging().look_at_clock()
    if isinstance(schema, bool):
        return set()
    names = {name for name in schema.get("properties", ()) if name in instance}
    for word in ("additionalProperties", "unevaluatedProperties"):
        if word in schema:
            inner = schema[word]
            names |= {n for n, value in instance.items() if is_valid(validator, value, inner)}
    for pattern in schema.get("patternProperties", ()):
        names |= {name for name in instance if is_found(pattern, name)}
    for name, dependent in schema.get("dependentSchemas", {}).items():
        if name in instance:
            names |= _evaluated_names(validator, instance, dependent)
    for holder, inner in _applicable_schemas(validator, instance, schema):
        names |= _evaluated_names(holder, instance, inner)
    return names


def _evaluated_indexes(validator: Validator, instance: Any, schema: Schema) -> set[int]:
    judging().look_at_clock()
    if isinstance(schema, bool):
        return set()
    if "items" in schema:
        return set(range(len(instance)))
    indexes = set(range(len(schema.get("prefixItems", ()))))
    for word in ("contains", "unevaluatedItems"):
        if word in schema:
            inner = schema[word]
            indexes |= {i for i, item in enumerate(instance) if is_valid(validator, item, inner)}
    for holder, inner in _applicable_schemas(validator, instance, schema):
        indexes |= _evaluated_indexes(holder, instance, inner)
    return indexes


def _applicable_schemas(
    validator: Validator, instance: object, schema: Mapping[str, Any]
) -> Iterator[tuple[Validator, Schema]]:
    """The schemas that apply to the same value, each with the validator to continue with."""
    for word in ("$ref", "$dynamicRef"):
        if word in schema:
            found = look_up(validator, schema[word])
            yield validator.evolve(schema={}, _resolver=found.resolver), found.contents
    for word in ("allOf", "anyOf", "oneOf"):
        for inner in schema.get(word, ()):
            if is_valid(validator, instance, inner):
                yield validator, inner
    if "if" in schema:
        holds = is_valid(validator, instance, schema["if"])
        if holds:
            yield validator, schema["if"]
        yield validator, schema.get("then" if holds else "else", True)


UNEVALUATED_KEYWORDS: Mapping[str, Keyword] = {
    "unevaluatedProperties": _properties,
    "unevaluatedItems": _items,
}
