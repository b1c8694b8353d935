"""The JSON Schema of records as they are printed, with the words of their docstrings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from loopkit.engine.records import Record
from loopkit.views.schemas.docstrings import docstrings
from loopkit.views.schemas.generate import as_draft_07


def records_of(nouns: Iterable[type[Record]]) -> dict[str, Any]:
    """The draft-07 definitions of records and of the records inside them, by name.

    Every key is required. Unknown keys are allowed: a later version may add some.
    """
    _, made = msgspec.json.schema_components(nouns, ref_template="#/definitions/{name}")
    kinds = {noun.__name__: noun for noun in _below(Record)}
    return {name: as_draft_07(_record_schema(kinds[name], made[name])) for name in sorted(made)}


def _record_schema(noun: type[Record], schema: dict[str, Any]) -> dict[str, Any]:
    described = docstrings(noun)
    properties = {
        name: {**value, "description": described[name]} if name in described else value
        for name, value in schema["properties"].items()
    }
    return {
        "description": schema["description"],
        "type": "object",
        "properties": properties,
        "required": list(properties),
    }


def _below(noun: type[Record]) -> Iterator[type[Record]]:
    for kind in noun.__subclasses__():
        yield kind
        yield from _below(kind)
