"""The `lookup` rule: values that have to be known."""

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from loopkit.language.noun import INCLUDED_SCHEMA, Noun, Written, fault
from loopkit.language.validators.rule import Example, FixedRule

NAME_PATTERN = r"^[a-z][a-z0-9_]*(\.[^\s.]+)*$"
LOOKS_LIKE_FILE = re.compile(r"/|\.(ya?ml|json)$")


class DataFile(Noun):
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
            return DataFile(file=file, text=text)
        case Mapping():
            raise fault("bad-source", "this names no file", help="write `{file: PATH}`")
        case str() if LOOKS_LIKE_FILE.search(value):
            raise fault("bad-source", f"`{value}` is not a name", help=f"write `{{file: {value}}}`")
        case str() if re.fullmatch(NAME_PATTERN, value):
            return value
    raise fault("bad-source", f"`{value}` is not a name", help=SOURCE_HELP)


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
    """The values to check, and the source of the known values."""

    path: str
    """The path of the values in the judged data: `nodes[].capability`."""
    in_: KnownIn = Field(alias="in")
    """The source of the known values: an input such as `input.known`, the name of an artifact, or
    `{file: PATH}`."""
    at: str | None = None
    """The path of the known values in the source: `items[].id`. Default: the source itself."""
    where: str | None = None
    """A condition on each item of `at`. Only the values of items that meet it count as known."""
    cover: bool = False
    """Check the reverse: every known value must be used at `path`."""
    avoid: bool = False
    """Check the opposite: no known value may be used at `path`."""

    def __str__(self) -> str:
        how = "covers" if self.cover else "avoids" if self.avoid else "in"
        return f"{self.path} {how} {self.in_}"

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.cover and self.avoid:
            message = "`cover` and `avoid` exclude each other"
            raise fault("two-directions", message, ("avoid",), help="write two rules")
        if self.where is not None and "[]" not in (self.at or ""):
            message = "`where` is tried on items, and `at` goes through none"
            help_ = "write `at:` with `[]`, such as `at: items[].id`"
            raise fault("bad-path", message, ("at" if self.at else "where",), help=help_)
        return self


class LookupRule(FixedRule):
    """Checks that every value at a path is known, that every known value is used there, or that
    none is."""

    lookup: Lookup
    """The values to check, and the known values."""

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
    def conditions(self) -> Written:
        if self.lookup.where is not None:
            yield ("lookup", "where"), self.lookup.where

    @property
    def mentions(self) -> Iterator[str]:
        yield from super().mentions
        yield str(self.lookup.in_)

    def wish(self, patterns: Mapping[str, str]) -> str:
        where = f" at `{self.lookup.at}`" if self.lookup.at else ""
        where += f" where {self.lookup.where}" if self.lookup.where else ""
        if self.lookup.avoid:
            return f"no `{self.lookup.path}` is one that `{self.lookup.in_}` has{where}"
        if self.lookup.cover:
            return f"every value that `{self.lookup.in_}` has{where} is a `{self.lookup.path}`"
        return f"every `{self.lookup.path}` is one that `{self.lookup.in_}` has{where}"
