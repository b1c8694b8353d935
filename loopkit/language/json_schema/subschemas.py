"""Keywords that validate a value, or parts of it, against subschemas."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from jsonschema import ValidationError

from loopkit.language.json_schema.excerpts import excerpt, join_excerpts
from loopkit.language.json_schema.references import look_up
from loopkit.language.json_schema.value_keywords import Errors, Keyword, Validator, is_found

Object = Mapping[str, Any]
Schema = bool | Mapping[str, Any]
Schemas = Mapping[str, Schema]


def errors_in(
    validator: Validator,
    instance: object,
    schema: Schema,
    *,
    path: str | int | None = None,
    resolver: Any = None,
) -> Errors:
    """The violations of an inner schema in a value, below this step."""
    if schema is False:
        error = ValidationError(f"{excerpt(instance)} is not allowed here")
        if path is not None:
            error.path.appendleft(path)
        return iter((error,))
    if schema is not True and "$schema" in schema:
        # The library would go on with the keywords of that dialect, and without the clock.
        schema = {word: value for word, value in schema.items() if word != "$schema"}
    errors: Errors = validator.descend(instance, schema, path=path, resolver=resolver)
    return errors


def is_valid(validator: Validator, instance: object, schema: Schema) -> bool:
    return next(errors_in(validator, instance, schema), None) is None


def _reference(validator: Validator, reference: str, instance: object, _: Object) -> Errors:
    found = look_up(validator, reference)
    return errors_in(validator, instance, found.contents, resolver=found.resolver)


def _properties(validator: Validator, schemas: Schemas, instance: Any, _: Object) -> Errors:
    if validator.is_type(instance, "object"):
        for name, schema in schemas.items():
            if name in instance:
                yield from errors_in(validator, instance[name], schema, path=name)


def _pattern_properties(validator: Validator, schemas: Schemas, instance: Any, _: Any) -> Errors:
    if validator.is_type(instance, "object"):
        for pattern, schema in schemas.items():
            for name, value in instance.items():
                if is_found(pattern, name):
                    yield from errors_in(validator, value, schema, path=name)


def _additional_properties(
    validator: Validator, schema: Schema, instance: Any, holder: Object
) -> Errors:
    if not validator.is_type(instance, "object"):
        return
    if schema is not False:
        for name in _additional(instance, holder):
            yield from errors_in(validator, instance[name], schema, path=name)
    elif extras := list(_additional(instance, holder)):
        message = "Additional properties are not allowed"
        yield ValidationError(f"{message} ({extras_message(sorted(extras))})")


def _additional(instance: Object, holder: Object) -> Iterator[str]:
    patterns = holder.get("patternProperties", ())
    for name in instance:
        named = name in holder.get("properties", ())
        if not named and not any(is_found(pattern, name) for pattern in patterns):
            yield name


def extras_message(extras: Sequence[object]) -> str:
    """`'a', 'b' were unexpected`, the first few of them."""
    return f"{join_excerpts(extras)} {'was' if len(extras) == 1 else 'were'} unexpected"


def _property_names(validator: Validator, schema: Schema, instance: Any, _: Object) -> Errors:
    if validator.is_type(instance, "object"):
        for name in instance:
            yield from errors_in(validator, name, schema)


def _dependent_schemas(validator: Validator, schemas: Schemas, instance: Any, _: Object) -> Errors:
    if validator.is_type(instance, "object"):
        for name, schema in schemas.items():
            if name in instance:
                yield from errors_in(validator, instance, schema)


def _prefix_items(
    validator: Validator, schemas: Sequence[Schema], instance: Any, _: Object
) -> Errors:
    if validator.is_type(instance, "array"):
        for index, (item, schema) in enumerate(zip(instance, schemas, strict=False)):
            yield from errors_in(validator, item, schema, path=index)


def _items(validator: Validator, schema: Schema, instance: Any, holder: Object) -> Errors:
    if not validator.is_type(instance, "array"):
        return
    first = len(holder.get("prefixItems", ()))
    if schema is False and len(instance) > first:
        extra = join_excerpts(instance[first : first + 6])
        yield ValidationError(f"Expected at most {first} items but found more: {extra}")
    elif schema is not False:
        for index in range(first, len(instance)):
            yield from errors_in(validator, instance[index], schema, path=index)


def _contains(validator: Validator, schema: Schema, instance: Any, holder: Object) -> Errors:
    if not validator.is_type(instance, "array"):
        return
    least, most = holder.get("minContains", 1), holder.get("maxContains", len(instance))
    found = sum(is_valid(validator, item, schema) for item in instance)
    if found > most:
        yield ValidationError(f"{found:,} items match the given schema (expected at most {most})")
    elif found < least:
        wanted = "does not contain items matching the given schema"
        if found:
            wanted = f"has {found:,} items matching the given schema (expected at least {least})"
        yield ValidationError(f"{excerpt(instance)} {wanted}")


def _all_of(validator: Validator, schemas: Sequence[Schema], instance: object, _: Any) -> Errors:
    for schema in schemas:
        yield from errors_in(validator, instance, schema)


def _any_of(validator: Validator, schemas: Sequence[Schema], instance: object, _: Any) -> Errors:
    if not any(is_valid(validator, instance, schema) for schema in schemas):
        yield _under_none(instance)


def _one_of(validator: Validator, schemas: Sequence[Schema], instance: object, _: Any) -> Errors:
    fitting = [schema for schema in schemas if is_valid(validator, instance, schema)]
    if not fitting:
        yield _under_none(instance)
    elif len(fitting) > 1:
        yield ValidationError(
            f"{excerpt(instance)} is valid under each of {join_excerpts(fitting, 2)}"
        )


def _under_none(instance: object) -> ValidationError:
    return ValidationError(f"{excerpt(instance)} is not valid under any of the given schemas")


def _not(validator: Validator, schema: Schema, instance: object, _: Any) -> Errors:
    if is_valid(validator, instance, schema):
        yield ValidationError(f"{excerpt(instance)} should not be valid under {excerpt(schema)}")


def _if(validator: Validator, schema: Schema, instance: object, holder: Object) -> Errors:
    then = "then" if is_valid(validator, instance, schema) else "else"
    return errors_in(validator, instance, holder.get(then, True))


SUBSCHEMA_KEYWORDS: Mapping[str, Keyword] = {
    "$ref": _reference,
    "$dynamicRef": _reference,
    "properties": _properties,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional_properties,
    "propertyNames": _property_names,
    "dependentSchemas": _dependent_schemas,
    "prefixItems": _prefix_items,
    "items": _items,
    "contains": _contains,
    "allOf": _all_of,
    "anyOf": _any_of,
    "oneOf": _one_of,
    "not": _not,
    "if": _if,
}
