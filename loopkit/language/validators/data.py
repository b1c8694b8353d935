"""Rules for data: `schema`, `require`, `lookup`, `acyclic`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema

from loopkit.language.noun import INCLUDED_SCHEMA, Notation, Noun, fault
from loopkit.language.validators.rule import FixedRule

NAME_PATTERN = r"^[a-z][a-z0-9_]*(\.[^\s.]+)*$"
LOOKS_LIKE_FILE = re.compile(r"/|\.(ya?ml|json)$")


class SchemaRule(FixedRule):
    """JSON or YAML data of this shape."""

    schema_: Notation = Field(alias="schema")
    """A type in the notation of the language, or a JSON Schema."""
    tolerant: bool = False
    """Take the data out of a code fence or the prose around it."""


class RequireRule(FixedRule):
    """A condition on data, in the guard language."""

    require: str
    """The condition; names are fields of the data or the item."""
    each: str | None = None
    """A path such as `nodes[]`; the condition is tried on every item."""


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file of known values; the loader put its text beside its name."""

    file: str
    text: str

    def __str__(self) -> str:
        return self.file


def _source(value: Any) -> object:
    match value:
        case DataFile():
            return value
        case {"file": str() as file, "text": str() as text} if len(value) == 2:
            return DataFile(file, text)
        case Mapping():
            raise fault("bad-source", "this names no file", help="write `{file: PATH}`")
        case str() if LOOKS_LIKE_FILE.search(value):
            raise fault("bad-source", f"`{value}` is no name", help=f"write `{{file: {value}}}`")
        case str() if not re.fullmatch(NAME_PATTERN, value):
            raise fault("bad-source", f"`{value}` is no name", help=SOURCE_HELP)
    return value


SOURCE_HELP = "name an input (`input.known`), an artifact, or a file: `{file: known.yaml}`"
KnownIn = Annotated[
    str | DataFile,
    BeforeValidator(_source),
    WithJsonSchema(
        {"anyOf": [{"type": "string", "pattern": NAME_PATTERN}, INCLUDED_SCHEMA]},
        mode="validation",
    ),
]
"""The dotted name of an input, the name of an artifact, or a file of JSON or YAML."""


class Lookup(Noun):
    """Which values have to be known, and where the known ones are."""

    path: str
    """Where the values are in the data that is judged: `nodes[].capability`."""
    in_: KnownIn = Field(alias="in")
    """An input such as `input.known`, the name of an artifact, or `{file: PATH}`."""
    at: str | None = None
    """Where in that the known values are: `items[].id`; without it, that itself holds them."""

    def __str__(self) -> str:
        return f"{self.path} in {self.in_}"


class LookupRule(FixedRule):
    """Every value at a path is among the known ones."""

    lookup: Lookup
    """The values and where they are known."""


class Acyclic(Noun):
    """Where the graph is in the data."""

    nodes: str
    """Where the ids of the nodes are: `nodes[].id`."""
    edges: str
    """Where each node says where it leads, `nodes[].needs[]`, or where the pairs of ids are."""

    def __str__(self) -> str:
        return self.edges


class AcyclicRule(FixedRule):
    """A graph in the data has no cycle, and its edges lead to nodes."""

    acyclic: Acyclic
    """The paths to its nodes and edges."""
