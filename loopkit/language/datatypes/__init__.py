"""The one notation for types: of `input`, of an agent's `schema`, of a `form` and a `schema` rule.

`str int num bool any`, `a|b|c`, `[T]`, `{field: T, ...: T}`, `optional T`, a mapping
whose `type` is one of these with `default`, `minimum`, `maximum`, `description`, or
JSON Schema taken as such. Each becomes a JSON Schema plus what guards and
templates may know about it without running anything.
"""

from loopkit.language.datatypes.common import common_type
from loopkit.language.datatypes.conformance import conform, fault_texts, first_misfit, salvage
from loopkit.language.datatypes.datatype import (
    DataType,
    NotationError,
    describe_type,
    facts_of,
    misfit,
    single_values,
    what_it_takes,
)
from loopkit.language.datatypes.notation import (
    default_places,
    field_place,
    file_places,
    inner_types,
    is_json_schema,
    parse_fields,
    parse_record,
    parse_type,
)
from loopkit.language.json_schema import schema_faults

__all__ = [
    "DataType",
    "NotationError",
    "common_type",
    "conform",
    "default_places",
    "describe_type",
    "facts_of",
    "fault_texts",
    "field_place",
    "file_places",
    "first_misfit",
    "inner_types",
    "is_json_schema",
    "misfit",
    "parse_fields",
    "parse_record",
    "parse_type",
    "salvage",
    "schema_faults",
    "single_values",
    "what_it_takes",
]
