"""A joined schema: a part of a JSON Schema with its `$ref` and `allOf` resolved."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from loopkit.language.json_schema.layout import Path
from loopkit.language.json_schema.local import part_at, steps_of
from loopkit.values import Mutable, Value, field

MOST_JOINED = 200
"""The maximum number of parts that are joined; the rest is left out, so that less is known."""
MOST_FOLLOWED = 32
"""The maximum number of references followed in a row."""


class Part(Value, frozen=True):
    """A schema inside another one: its place, and the references followed to reach it."""

    schema: Any
    steps: Path = ()
    followed: frozenset[str] = frozenset()
    """References, none of which is followed again: a type may be made of itself."""
    depth: int = 0
    """Its depth in the data."""

    def inside(self, *steps: str | int) -> Part:
        """The part at the end of these steps, at the same depth in the data."""
        return self.replace(schema=part_at(self.schema, steps), steps=(*self.steps, *steps))

    def deeper(self, *steps: str | int) -> Part:
        """The part at the end of these steps, one level deeper in the data."""
        return self.inside(*steps).replace(depth=self.depth + 1)

    @property
    def is_null(self) -> bool:
        """Whether it lets nothing but null through."""
        said = self.schema
        return (
            isinstance(said, Mapping)
            and (said.get("type") == "null" or [None] in _lists(said))
            and _lets_null(said)
        )


class Joined(Mutable):
    """The keywords of all parts that describe the same data; of one keyword the first counts."""

    size: int = 0
    """The number of these parts."""
    words: dict[str, Any] = field(default_factory=dict)
    properties: dict[str, Part] = field(default_factory=dict)
    required: set[str] = field(default_factory=set)
    items: Part | None = None
    others: Part | None = None
    """The part for further fields, if there is one."""
    is_closed: bool = False
    lets_null: bool = True
    """Whether its own keywords allow null."""
    forms: tuple[Part, ...] = ()
    """The parts of which one describes the data."""

    @classmethod
    def of(cls, part: Part, root: Mapping[str, Any]) -> Joined:
        """A part of a schema, joined with the parts of the same schema that it refers to."""
        parts = list(islice(_speaking(part, root), MOST_JOINED))
        followed = frozenset[str]().union(*(one.followed for one in parts))
        joined = cls(len(parts))
        for one in parts:
            joined._hear(one.replace(followed=followed))
        return joined

    def _hear(self, part: Part) -> None:
        said: Mapping[str, Any] = part.schema
        self.words = {**said, **self.words}
        self.lets_null = self.lets_null and _lets_null(said)
        for name in said.get("properties", {}):
            self.properties.setdefault(name, part.deeper("properties", name))
        self.required.update(said.get("required", ()))
        if "items" in said and "prefixItems" not in said:
            self.items = self.items or part.deeper("items")
        match said.get("additionalProperties"):
            case False:
                self.is_closed = True
            case True | Mapping():
                self.others = self.others or part.deeper("additionalProperties")
        for word in ("anyOf", "oneOf"):
            if not self.forms:
                numbers = range(len(said.get(word, ())))
                self.forms = tuple(part.inside(word, number) for number in numbers)


def _lists(said: Mapping[str, Any]) -> list[Any]:
    """The values that there are, each time that they are listed."""
    listed = [said["enum"]] if "enum" in said else []
    return [*listed, [said["const"]]] if "const" in said else listed


def _lets_null(said: Mapping[str, Any]) -> bool:
    kinds = said.get("type", "null")
    return "null" in ([kinds] if isinstance(kinds, str) else kinds) and all(
        None in values for values in _lists(said)
    )


def _speaking(part: Part, root: Mapping[str, Any]) -> Iterator[Part]:
    """A part, what it refers to, and what is listed under its `allOf`."""
    waiting = [part]
    while waiting:
        one = waiting.pop()
        if not isinstance(one.schema, Mapping):
            continue
        yield one
        members = range(len(one.schema.get("allOf", ())))
        waiting += [one.inside("allOf", number) for number in reversed(members)]
        reference = one.schema.get("$ref")
        steps = steps_of(reference) if isinstance(reference, str) else None
        may_follow = reference not in one.followed and len(one.followed) < MOST_FOLLOWED
        if steps is not None and may_follow:
            followed = one.followed | {str(reference)}
            waiting.append(Part(part_at(root, steps), steps, followed, one.depth))
