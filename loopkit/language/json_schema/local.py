"""Local schemas: every reference in one leads to a part of the schema itself.

Such a schema can be understood by walking it, and providers accept it.
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


def with_local_references(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema with all references made local, if it refers only to itself.

    A schema with anchors, or with references to the metaschema, stays as it is.
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

    local: Mapping[str, Any] = rewrite(schema, change)
    return local


def relocate(schema: Mapping[str, Any], steps: Path) -> dict[str, Any]:
    """A schema rewritten to stand at this place of another schema, as a part of it."""

    def change(part: Mapping[str, Any]) -> dict[str, Any]:
        reference = part.get("$ref")
        if not isinstance(reference, str) or steps_of(reference) is None:
            return dict(part)
        return {**part, "$ref": place + reference.removeprefix("#")}

    place = pointer(steps)
    # References into a schema with its own address use that address, so they need no change.
    return rewrite(schema, change) if refers(schema) and "$id" not in schema else dict(schema)


def as_only_field(name: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of an object with this field alone.

    The `$defs` of the field's schema are at the root, the one place where providers look for them.
    """
    field = relocate(schema, ("properties", name))
    whole = {"type": "object", "properties": {name: field}, "required": [name]}
    if "$defs" not in field or "$id" in field:
        return whole
    place = pointer(("properties", name, "$defs"))

    def change(part: Mapping[str, Any]) -> dict[str, Any]:
        reference = part.get("$ref")
        if not isinstance(reference, str) or not reference.startswith(f"{place}/"):
            return dict(part)
        return {**part, "$ref": "#/$defs" + reference.removeprefix(place)}

    hoisted: dict[str, Any] = rewrite({**whole, "$defs": field.pop("$defs")}, change)
    return hoisted


def standing_alone(schema: Mapping[str, Any], steps: Path) -> dict[str, Any]:
    """The part of a schema at a place, with everything that it may refer to.

    The schema has already been relocated to its new place.
    """
    return {"$defs": {"whole": schema}, "$ref": pointer(("$defs", "whole", *steps))}


def parts(schema: object) -> Iterator[Mapping[str, Any]]:
    """A schema and all schemas in it, except `true` and `false`."""
    return (part for _, part, _ in _parts(schema))


def _parts(
    schema: Any, path: Path = (), base: str = ""
) -> Iterator[tuple[Path, Mapping[str, Any], str]]:
    """A schema and all schemas in it, each with its path and base address."""
    if isinstance(schema, Mapping):
        base = _resolve(base, schema["$id"])[0] if isinstance(schema.get("$id"), str) else base
        yield path, schema, base
        for step, inner in inner_schemas(schema):
            yield from _parts(inner, (*path, *step), base)


def _resolve(base: str, address: str) -> tuple[str, str]:
    try:
        joined = urldefrag(urljoin(base, address))
    except ValueError:
        return address, ""
    return joined.url, joined.fragment


def _local(base: str, reference: object, places: Mapping[str, Path]) -> str | None:
    """The target of a reference as a path from the root; none if that is unknown."""
    address, fragment = _resolve(base, reference) if isinstance(reference, str) else ("", "")
    steps = steps_of(f"#{fragment}")
    known = address in places and steps is not None
    return pointer((*places[address], *(steps or ()))) if known else None


def rewrite(schema: Any, change: Callable[[Mapping[str, Any]], dict[str, Any]]) -> Any:
    """The schema with each one in it changed, in the order of `_parts`."""
    if not isinstance(schema, Mapping):
        return schema
    made = change(schema)
    for word, value in made.items():
        if word in IN_VALUE:
            made[word] = rewrite(value, change)
        elif word in IN_LIST and isinstance(value, list):
            made[word] = [rewrite(inner, change) for inner in value]
        elif word in IN_MAPPING and isinstance(value, Mapping):
            made[word] = {name: rewrite(inner, change) for name, inner in value.items()}
    return made
