"""Readable data: typed data as templates read it."""

from __future__ import annotations

from collections.abc import Mapping

from loopkit.language.datatypes import DataType
from loopkit.language.template import Record


def readable(value: object, datatype: DataType | None) -> object:
    """Data of a type for templates: an optional field that is missing reads as none."""
    if isinstance(value, Mapping) and datatype is not None and datatype.fields is not None:
        known = {name: readable(inner, datatype.field(name)) for name, inner in value.items()}
        optional = {name for name, inner in datatype.fields.items() if not inner.required}
        return Record(known, optional - known.keys())
    if isinstance(value, list) and datatype is not None and datatype.items is not None:
        return [readable(item, datatype.items) for item in value]
    return value
