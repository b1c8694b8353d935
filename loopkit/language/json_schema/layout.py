"""The layout of schemas: keywords that hold schemas, and keywords that refer to one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

REFERENCES = ("$ref", "$dynamicRef")
IN_VALUE = frozenset(
    {
        "additionalProperties", "contains", "contentSchema", "else", "if", "items", "not",
        "propertyNames", "then", "unevaluatedItems", "unevaluatedProperties",
    }
)  # fmt: skip
IN_LIST = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
DEFINITIONS = frozenset({"$defs", "definitions"})
"""Schemas under these keywords count only where a reference leads to them."""
IN_MAPPING = DEFINITIONS | {"dependentSchemas", "patternProperties", "properties"}

Path = tuple[str | int, ...]


def inner_schemas(schema: Mapping[str, Any]) -> Iterator[tuple[Path, Any]]:
    """The schemas inside a schema, as values of its keywords, each with its path."""
    for word, value in schema.items():
        if word in IN_VALUE:
            yield (word,), value
        elif word in IN_LIST and isinstance(value, list | tuple):
            yield from (((word, index), inner) for index, inner in enumerate(value))
        elif word in IN_MAPPING and isinstance(value, Mapping):
            yield from (((word, name), inner) for name, inner in value.items())
