"""The `lookup` rule: values that have to be known."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema

from loopkit.language.noun import INCLUDED_SCHEMA, Noun, fault
from loopkit.language.validators.rule import Example, FixedRule, Written

NAME_PATTERN = r"^[a-z][a-z0-9_]*(\.[^\s.]+)*$"
LOOKS_LIKE_FILE = re.compile(r"/|\.(ya?ml|json)$")


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
            raise fault("bad-source", f"`{value}` is not a name", help=f"write `{{file: {value}}}`")
        case str() if not re.fullmatch(NAME_PATTERN, value):
            raise fault("bad-source", f"`{value}` is not a name", help=SOURCE_HELP)
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
    cover: bool = False
    """Instead, every known value has to be used."""

    def __str__(self) -> str:
        return f"{self.path} {'covers' if self.cover else 'in'} {self.in_}"


class LookupRule(FixedRule):
    """Every value at a path is among the known ones, or every known one is used there."""

    lookup: Lookup
    """The values and where they are known."""

    kind = "lookup"
    example = Example(
        {"lookup": {"path": "drinks[]", "in": {"file": "known.yaml"}, "at": "drinks[]"}},
        passes='{"drinks": ["tea"]}',
        fails='{"drinks": ["tee"]}',
        files={"known.yaml": "drinks: [tea, water]\n"},
    )

    @property
    def paths(self) -> Written:
        yield ("lookup", "path"), self.lookup.path
        if self.lookup.at is not None:
            yield ("lookup", "at"), self.lookup.at

    @property
    def mentions(self) -> Iterator[str]:
        yield from super().mentions
        yield str(self.lookup.in_)

    def wish(self, patterns: Mapping[str, str]) -> str:
        where = f" at `{self.lookup.at}`" if self.lookup.at else ""
        if self.lookup.cover:
            return f"every value that `{self.lookup.in_}` has{where} is a `{self.lookup.path}`"
        return f"every `{self.lookup.path}` is one that `{self.lookup.in_}` has{where}"
