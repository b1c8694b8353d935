"""Local schemas: every reference in one leads to a part of the schema itself.

That is the form of which everything can be known by walking it, and which providers take.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin

from loopkit.language.json_schema.layout import IN_LIST, IN_MAPPING, IN_VALUE, Path, inner_schemas

ADDRESSES = frozenset({"$id", "$anchor", "$dynamicAnchor", "$dynamicRef"})


def pointer(steps: Path) -> str:
    """`#/properties/a` for ("properties", "a")."""
    parts = (str(step).replace("~", "~0").replace("/", "~1") for step in steps)
    return "".join(["#", *(f"/{part}" for part in parts)]).replace("%", "%25")


def steps_of(reference: str) -> Path | None:
    """The steps that a reference to a part of the same schema takes; none for any other."""
    if reference != "#" and not reference.startswith("#/"):
        return None
    parts = unquote(reference).removeprefix("#").split("/")[1:]
    return tuple(part.replace("~1", "/").replace("~0", "~") for part in parts)


def part_at(schema: Any, steps: Path) -> Any:
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


def made_local(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema with local references alone, as far as it has none but to itself.

    One with anchors, or with references to the schema of schemas, stays as it is.
    """
    words = {word for part in parts(schema) for word in part}
    if words.isdisjoint(ADDRESSES):
        return schema
    places = {base: path for path, part, base in _parts(schema) if path == () or "$id" in part}
    references = [(base, part["$ref"]) for _, part, base in _parts(schema) if "$ref" in part]
    leading = [_local(base, reference, places) for base, reference in references]
    if words & ADDRESSES != {"$id"} or None in leading:
        return schema
    waiting = iter(leading)

    def change(part: Mapping[str, Any]) -> dict[str, Any]:
        kept = {word: value for word, value in part.items() if word != "$id"}
        return {**kept, "$ref": next(waiting)} if "$ref" in kept else kept

    local: Mapping[str, Any] = rewritten(schema, change)
    return local


def moved(schema: Mapping[str, Any], steps: Path) -> dict[str, Any]:
    """A schema as it has to be written at this place of another one, to which it then belongs."""

    def change(part: Mapping[str, Any]) -> dict[str, Any]:
        reference = part.get("$ref")
        if not isinstance(reference, str) or steps_of(reference) is None:
            return dict(part)
        return {**part, "$ref": place + reference.removeprefix("#")}

    place = pointer(steps)
    # What has an address of its own is referred to by that.
    return rewritten(schema, change) if refers(schema) and "$id" not in schema else dict(schema)


def as_only_field(name: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of an object with this field alone.

    The `$defs` of the field's schema are at the root, the one place where providers look for them.
    """
    field = moved(schema, ("properties", name))
    whole = {"type": "object", "properties": {name: field}, "required": [name]}
    if "$defs" not in field or "$id" in field:
        return whole
    place = pointer(("properties", name, "$defs"))

    def change(part: Mapping[str, Any]) -> dict[str, Any]:
        reference = part.get("$ref")
        if not isinstance(reference, str) or not reference.startswith(f"{place}/"):
            return dict(part)
        return {**part, "$ref": "#/$defs" + reference.removeprefix(place)}

    hoisted: dict[str, Any] = rewritten({**whole, "$defs": field.pop("$defs")}, change)
    return hoisted


def standing_alone(schema: Mapping[str, Any], steps: Path) -> dict[str, Any]:
    """The part of a schema at a place, with everything that it may refer to.

    The schema is already moved to its place below.
    """
    return {"$defs": {"whole": schema}, "$ref": pointer(("$defs", "whole", *steps))}


def parts(schema: object) -> Iterator[Mapping[str, Any]]:
    """A schema and all in it, but for those that are true or false."""
    return (part for _, part, _ in _parts(schema))


def _parts(
    schema: Any, path: Path = (), base: str = ""
) -> Iterator[tuple[Path, Mapping[str, Any], str]]:
    """A schema and all in it, each with the way to it and the address that it is seen from."""
    if isinstance(schema, Mapping):
        base = _joined(base, schema["$id"])[0] if isinstance(schema.get("$id"), str) else base
        yield path, schema, base
        for step, inner in inner_schemas(schema):
            yield from _parts(inner, (*path, *step), base)


def _joined(base: str, address: str) -> tuple[str, str]:
    try:
        joined = urldefrag(urljoin(base, address))
    except ValueError:
        return address, ""
    return joined.url, joined.fragment


def _local(base: str, reference: object, places: Mapping[str, Path]) -> str | None:
    """Where a reference leads, by the way from the root; none where that can't be told."""
    address, fragment = _joined(base, reference) if isinstance(reference, str) else ("", "")
    steps = steps_of(f"#{fragment}")
    known = address in places and steps is not None
    return pointer((*places[address], *(steps or ()))) if known else None


def rewritten(schema: Any, change: Callable[[Mapping[str, Any]], dict[str, Any]]) -> Any:
    """The schema with each one in it changed, in the order of `_parts`."""
    if not isinstance(schema, Mapping):
        return schema
    made = change(schema)
    for word, value in made.items():
        if word in IN_VALUE:
            made[word] = rewritten(value, change)
        elif word in IN_LIST and isinstance(value, list):
            made[word] = [rewritten(inner, change) for inner in value]
        elif word in IN_MAPPING and isinstance(value, Mapping):
            made[word] = {name: rewritten(inner, change) for name, inner in value.items()}
    return made
