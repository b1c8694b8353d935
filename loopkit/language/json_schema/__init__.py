"""JSON Schema: violations of a schema in data, mistakes in a schema, and its parts.

The draft is 2020-12. However hostile data and schema are, judging takes no longer than its time,
which grows with the size of the data, and nothing is fetched from anywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin

from loopkit.language.json_schema.equality import Flaw
from loopkit.text import shorten
from loopkit.values import Value

MAX_FAULTS = 50
"""The maximum number of faults reported for some data; a mistake made everywhere needs no more."""
MESSAGE_CHARS = 300


def schema_faults(value: object, schema: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The violations of a JSON Schema in JSON data, as (location such as `nodes[2].id`, message).

    The first 50 in the order of their locations. Raises NotJudged.
    """
    # The library costs 60 ms to import, and most commands judge no data.
    from loopkit.language.json_schema.validation import errors, message_of  # noqa: PLC0415

    found = errors(value, schema, most=MAX_FAULTS)
    return [
        (location_of(error.absolute_path), shorten(message_of(error), MESSAGE_CHARS))
        for error in found
    ]


def broken_fields(value: object, schema: Mapping[str, Any]) -> frozenset[str]:
    """The fields of a mapping in which something breaks a JSON Schema. Raises NotJudged."""
    from loopkit.language.json_schema.validation import errors  # noqa: PLC0415 - as above

    found = errors(value, schema, most=None)
    return frozenset(str(error.absolute_path[0]) for error in found if error.absolute_path)


def schema_problem(schema: Mapping[str, Any]) -> Flaw | None:
    return next(iter(schema_problems(schema)), None)


def schema_problems(schema: Mapping[str, Any]) -> tuple[Flaw, ...]:
    """The first mistakes that make a mapping unusable as a JSON Schema."""
    from loopkit.language.json_schema.validation import flaws  # noqa: PLC0415 - as above

    found = islice(flaws(schema), MAX_FAULTS)
    return tuple(flaw.replace(message=shorten(flaw.message, MESSAGE_CHARS)) for flaw in found)


def keywords() -> frozenset[str]:
    from loopkit.language.json_schema.validation import KEYWORDS  # noqa: PLC0415 - as above

    return KEYWORDS


def location_of(path: Sequence[str | int]) -> str:
    """`nodes[2].id` for ("nodes", 2, "id")."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".")


ABOUT_SCHEMA = frozenset(
    {
        "$anchor", "$comment", "$dynamicAnchor", "$id", "$schema", "$vocabulary", "contentEncoding",
        "contentMediaType", "contentSchema", "default", "deprecated", "description", "examples",
        "readOnly", "title", "writeOnly",
    }
)  # fmt: skip
"""Keywords that judge nothing: with these alone a schema means to allow anything."""

Path = tuple[str | int, ...]


class Silence(Value, frozen=True):
    """A schema that says something, and nothing that data could break."""

    steps: Path
    referred_from: Path
    """The part whose `$ref` leads there; without one, the same."""
    words: frozenset[str]
    """Unknown keywords, and definitions."""


def silent_parts(schema: Mapping[str, Any]) -> Iterator[Silence]:
    """The silent schemas among those that judge data, each once.

    References to anchors are not followed.
    """
    whole, known = with_local_references(schema), keywords()
    waiting: list[tuple[Path, Path]] = [((), ())]
    seen: set[Path] = set()
    while waiting:
        steps, origin = waiting.pop()
        part = part_at(whole, steps)
        if steps in seen or not isinstance(part, Mapping):
            continue
        seen.add(steps)
        words = frozenset(part) - ABOUT_SCHEMA
        if words and not words & known:
            yield Silence(steps, origin, words)
        inner = ((*steps, *step) for step, _ in inner_schemas(part) if step[0] not in DEFINITIONS)
        waiting += [(path, path) for path in inner]
        reference = part.get("$ref")
        target = steps_of(reference) if isinstance(reference, str) else None
        if target is not None:
            waiting.append((target, steps))


REFERENCES = ("$ref", "$dynamicRef")
IN_VALUE = frozenset(
    {
        "additionalProperties", "contains", "contentSchema", "else", "if", "items", "not",
        "propertyNames", "then", "unevaluatedItems", "unevaluatedProperties",
    }
)  # fmt: skip
IN_LIST = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
DEFINITIONS = frozenset({"$defs", "definitions"})
"""Schemas under these keywords count only where a reference leads to them."""
IN_MAPPING = DEFINITIONS | {"dependentSchemas", "patternProperties", "properties"}


def inner_schemas(schema: Mapping[str, Any]) -> Iterator[tuple[Path, Any]]:
    """The schemas inside a schema, as values of its keywords, each with its path."""
    for word, value in schema.items():
        if word in IN_VALUE:
            yield (word,), value
        elif word in IN_LIST and isinstance(value, list | tuple):
            yield from (((word, index), inner) for index, inner in enumerate(value))
        elif word in IN_MAPPING and isinstance(value, Mapping):
            yield from (((word, name), inner) for name, inner in value.items())


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
    places = {
        base: path for path, part, base in placed_parts(schema) if path == () or "$id" in part
    }
    references = [(base, part["$ref"]) for _, part, base in placed_parts(schema) if "$ref" in part]
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
    # References into a schema with its own address use that address, so they need no change.
    if "$id" in schema or not refers(schema):
        return dict(schema)
    place = pointer(steps)
    return _with_references(
        schema, lambda old: old if steps_of(old) is None else place + old.removeprefix("#")
    )


def _with_references(schema: Mapping[str, Any], lead: Callable[[str], str]) -> dict[str, Any]:
    """The schema with what `lead` gives in place of each `$ref`."""

    def change(part: Mapping[str, Any]) -> dict[str, Any]:
        reference = part.get("$ref")
        return {**part, "$ref": lead(reference)} if isinstance(reference, str) else dict(part)

    changed: dict[str, Any] = rewrite(schema, change)
    return changed


def as_only_field(name: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of an object with this field alone.

    The `$defs` of the field's schema are at the root, the one place where providers look for them.
    """
    field = relocate(schema, ("properties", name))
    whole = {"type": "object", "properties": {name: field}, "required": [name]}
    if "$defs" not in field or "$id" in field:
        return whole
    place = pointer(("properties", name, "$defs"))
    return _with_references(
        {**whole, "$defs": field.pop("$defs")},
        lambda old: (
            f"#/$defs/{old.removeprefix(f'{place}/')}" if old.startswith(f"{place}/") else old
        ),
    )


def standing_alone(schema: Mapping[str, Any], steps: Path) -> dict[str, Any]:
    """The part of a schema at a place, with everything that it may refer to.

    The schema has already been relocated to its new place.
    """
    return {"$defs": {"whole": schema}, "$ref": pointer(("$defs", "whole", *steps))}


def parts(schema: object) -> Iterator[Mapping[str, Any]]:
    """A schema and all schemas in it, except `true` and `false`."""
    return (part for _, part, _ in placed_parts(schema))


def placed_parts(schema: Any, path: Path = (), base: str = "") -> Iterator[tuple[Path, Any, str]]:
    """A schema and all schemas in it, except `true` and `false`: its path, itself, its address."""
    if isinstance(schema, Mapping):
        base = resolve(base, schema["$id"])[0] if isinstance(schema.get("$id"), str) else base
        yield path, schema, base
        for step, inner in inner_schemas(schema):
            yield from placed_parts(inner, (*path, *step), base)


def resolve(base: str, address: str) -> tuple[str, str]:
    """An address resolved against a base, and its fragment; what is none leads nowhere."""
    try:
        # `urljoin` knows no paths in some schemes, such as `urn:`, and drops the base.
        joined = urldefrag(base + address if address.startswith("#") else urljoin(base, address))
    except ValueError:
        return address, ""
    return joined.url, joined.fragment


def _local(base: str, reference: object, places: Mapping[str, Path]) -> str | None:
    address, fragment = resolve(base, reference) if isinstance(reference, str) else ("", "")
    steps = steps_of(f"#{fragment}")
    known = address in places and steps is not None
    return pointer((*places[address], *(steps or ()))) if known else None


def rewrite(schema: Any, change: Callable[[Mapping[str, Any]], dict[str, Any]]) -> Any:
    """The schema with each one in it changed, in the order of `placed_parts`."""
    if not isinstance(schema, Mapping):
        return schema
    return _with_inner(change(schema), lambda inner: rewrite(inner, change))


def _with_inner(schema: dict[str, Any], change: Callable[[Any], Any]) -> dict[str, Any]:
    """The schema with those directly in it changed."""
    for word, value in schema.items():
        if word in IN_VALUE:
            schema[word] = change(value)
        elif word in IN_LIST and isinstance(value, list):
            schema[word] = [change(inner) for inner in value]
        elif word in IN_MAPPING and isinstance(value, Mapping):
            schema[word] = {name: change(inner) for name, inner in value.items()}
    return schema


class NotInlined(Exception):
    """The references of a schema can't be replaced by what they lead to; says why."""


MOST_INLINED = 2_000
"""The parts that a schema without references may have."""


def inlined(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema with the target of each reference in its place; raises NotInlined."""
    count = iter(range(MOST_INLINED))

    def fill(part: Any, passed: frozenset[str]) -> Any:
        if next(count, None) is None:
            raise NotInlined("it is too long without references")
        if not isinstance(part, Mapping):
            return part
        while "$ref" in part:
            if (reference := part["$ref"]) in passed:
                raise NotInlined("it refers to itself")
            beside = {word: value for word, value in part.items() if word != "$ref"}
            steps = steps_of(reference)
            part = _joined(None if steps is None else part_at(schema, steps), beside)
            passed |= {reference}
        if words := ADDRESSES & part.keys():
            raise NotInlined(f"it has `{min(words)}`")
        made = {word: value for word, value in part.items() if word not in DEFINITIONS}
        return _with_inner(made, lambda inner: fill(inner, passed))

    filled: dict[str, Any] = fill(schema, frozenset({"#"}))
    return filled


def _joined(target: Any, beside: Mapping[str, Any]) -> Mapping[str, Any]:
    """A schema and the words that stand beside a reference to it; raises NotInlined."""
    own = beside.keys() - ABOUT_SCHEMA - DEFINITIONS
    # What words about inner schemas say depends on their neighbours.
    if not isinstance(target, Mapping) or own & (target.keys() | IN_VALUE | IN_LIST | IN_MAPPING):
        raise NotInlined("it has a reference that can't be replaced by its target")
    return {**target, **beside}
