"""References of a JSON Schema to its own parts: where they lead, and what becomes of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Steps = tuple[str | int, ...]
DATA = frozenset({"enum", "const", "default", "examples"})
"""Words whose values are data, in which `$ref` is a key like any other."""
BY_NAME = frozenset({"properties", "patternProperties", "dependentSchemas", "$defs", "definitions"})
"""Words that hold schemas by names of their own."""


def pointer(steps: Steps) -> str:
    """`#/properties/a` for ("properties", "a")."""
    parts = (str(step).replace("~", "~0").replace("/", "~1") for step in steps)
    return "".join(["#", *(f"/{part}" for part in parts)])


def steps_of(reference: str) -> Steps | None:
    """The steps that a reference to a part of the same schema takes; none for any other."""
    if reference != "#" and not reference.startswith("#/"):
        return None
    parts = reference.removeprefix("#").split("/")[1:]
    return tuple(part.replace("~1", "/").replace("~0", "~") for part in parts)


def part_at(schema: Any, steps: Steps) -> Any:
    """The part of a schema at the end of these steps; none where they lead nowhere."""
    for step in steps:
        match schema:
            case Mapping() if step in schema:
                schema = schema[step]
            case list() if str(step).isdecimal() and int(step) < len(schema):
                schema = schema[int(step)]
            case _:
                return None
    return schema


def refers(schema: Any) -> bool:
    """Whether something in a schema is called `$ref`."""
    if isinstance(schema, Mapping):
        return "$ref" in schema or any(map(refers, schema.values()))
    return isinstance(schema, list) and any(map(refers, schema))


def moved(schema: Mapping[str, Any], steps: Steps) -> dict[str, Any]:
    """A schema as it has to be written at this place of another one, to which it then belongs."""
    return _moved(schema, pointer(steps)) if refers(schema) else dict(schema)


def _moved(schema: Any, place: str) -> Any:
    if isinstance(schema, list):
        return [_moved(item, place) for item in schema]
    if not isinstance(schema, Mapping) or "$id" in schema:
        # What has an address of its own is referred to by that.
        return schema
    return {word: _moved_word(word, inner, place) for word, inner in schema.items()}


def _moved_word(word: str, inner: Any, place: str) -> Any:
    if word in DATA:
        return inner
    if word == "$ref" and isinstance(inner, str):
        return inner if steps_of(inner) is None else place + inner.removeprefix("#")
    if word in BY_NAME and isinstance(inner, Mapping):
        return {name: _moved(part, place) for name, part in inner.items()}
    return _moved(inner, place)


def standing_alone(schema: Mapping[str, Any], steps: Sequence[str | int]) -> dict[str, Any]:
    """The part of a schema at a place, with everything that it may refer to."""
    return {"$defs": {"whole": schema}, "$ref": pointer(("$defs", "whole", *steps))}
