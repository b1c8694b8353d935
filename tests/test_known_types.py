"""What guards may know of data by its JSON Schema is true of all data that fits it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from random import Random
from typing import Any

import pytest

from loopkit.language.datatypes.datatype import (
    PYTHON_TYPES,
    DataType,
    NotationError,
    conform,
    facts_of,
    single_values,
)
from loopkit.language.datatypes.notation import parse_type
from loopkit.language.json_schema.equality import NotJudged

NAMES = ("a", "b", "c.d")
NUMBERS = (-2, -1, 0, 1, 2, 3, 0.5, 2.0, 2.5)
TEXTS = ("", "x", "y", "z")
SINGLE = (*NUMBERS, *TEXTS, True, False, None)
KINDS = ("string", "integer", "number", "boolean", "null", "array", "object")
LOWS, HIGHS = ("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")
DRAFT = "https://json-schema.org/draft/2020-12/schema"


def whole(random: Random) -> dict[str, Any]:
    """A schema that is whole in itself."""
    part = _record(random, 2) if random.random() < 0.8 else _part(random, 3)
    defs = {name: _part(random, 1) for name in ("one", "two")}
    return {"$schema": DRAFT, **(part if isinstance(part, dict) else {}), "$defs": defs}


def _part(random: Random, depth: int) -> Any:
    """A part of a schema, whose references lead to one of two definitions."""
    form = random.randrange(10 if depth else 4)
    if form == 5:
        return {"$ref": f"#/$defs/{random.choice(('one', 'two'))}"}
    if form in (6, 7):
        word = "allOf" if form == 6 else random.choice(("anyOf", "oneOf"))
        return {word: [_part(random, depth - 1) for _ in range(random.choice((1, 2, 3)))]}
    return _record(random, depth) if form > 7 else _plain(random, depth)


def _plain(random: Random, depth: int) -> Any:
    """A type with bounds and choices, or neither."""
    kinds = random.sample(KINDS, k=random.choice((0, 1, 1, 1, 2)))
    schema: dict[str, Any] = {"type": kinds[0] if len(kinds) == 1 else kinds} if kinds else {}
    if {"integer", "number"} & {*kinds} and random.random() < 0.6:
        schema[random.choice(LOWS)] = random.choice(NUMBERS[:5])
        schema[random.choice(HIGHS)] = random.choice(NUMBERS[2:])
    if random.random() < 0.2:
        values = random.choice((SINGLE, TEXTS, NUMBERS))
        schema["enum"] = random.choices(values, k=random.choice((1, 2, 4)))
    if random.random() < 0.1:
        schema["const"] = random.choice(SINGLE)
    if random.random() < 0.05:
        schema["default"] = random.choice(SINGLE)
    if depth and "array" in kinds:
        schema["items"] = _part(random, depth - 1)
    return schema or random.choice((True, {}, {}, False))


def _record(random: Random, depth: int) -> Any:
    """A mapping, and what of it is required, filled in and forbidden."""
    names = random.sample(NAMES, k=random.choice((1, 2, 3)))
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {name: _part(random, depth - 1) for name in names},
        "required": random.sample(NAMES, k=random.choice((0, 0, 1, 2))),
    }
    if random.random() < 0.5:
        schema["additionalProperties"] = random.choice((False, _part(random, depth - 1)))
    if random.random() < 0.05:
        schema["default"] = {name: random.choice(SINGLE) for name in names}
    return schema


def near(random: Random, schema: Any, defs: Mapping[str, Any], depth: int = 5) -> Any:
    """Data that fits a schema, mostly."""
    said = _said(random, schema, defs, 5)
    if "const" in said or "enum" in said:
        return said["const"] if "const" in said else random.choice(said["enum"])
    kinds = said.get("type", "object" if "properties" in said else SINGLE)
    kind = kinds if isinstance(kinds, str) else random.choice(kinds)
    if depth == 0 or kind not in KINDS or random.random() < 0.03:
        return random.choice(SINGLE)
    match kind:
        case "object":
            inner: dict[str, Any] = {**dict.fromkeys(said["required"], True), **said["properties"]}
            kept = [n for n in inner if n in said["required"] or random.random() < 0.7]
            return {name: near(random, inner[name], defs, depth - 1) for name in kept}
        case "array":
            many = random.randrange(3)
            return [near(random, said.get("items", True), defs, depth - 1) for _ in range(many)]
        case "null":
            return None
    return random.choice({"string": TEXTS, "boolean": (True, False)}.get(kind, NUMBERS))


def _said(random: Random, schema: Any, defs: Mapping[str, Any], depth: int) -> dict[str, Any]:
    """What all parts of a schema say that count for one value, of several forms one."""
    said: dict[str, Any] = {"required": [], "properties": {}}
    if not isinstance(schema, dict) or depth == 0:
        return said
    parts = [*schema.get("allOf", ())]
    parts += [random.choice(schema[word]) for word in ("anyOf", "oneOf") if word in schema]
    parts += [defs[schema["$ref"].rpartition("/")[2]]] if "$ref" in schema else []
    said |= schema
    for part in parts:
        more = _said(random, part, defs, depth - 1)
        properties = {**more["properties"], **said["properties"]}
        required = [*said["required"], *more["required"]]
        said = {**more, **said, "required": required, "properties": properties}
    return said


def assert_claimed(value: object, known: DataType, place: str) -> None:
    """That a value, and each of its parts, is what its type says that it is."""
    if value is None:
        assert known.optional or (known.scalar, known.fields, known.items) == (None,) * 3, place
        return
    if known.scalar is not None:
        assert_single(value, known, place)
    if known.fields is not None:
        assert isinstance(value, Mapping), place
        for name, inner in known.fields.items():
            assert name in value or inner.is_left_out, f"{place}.{name}"
            assert_claimed(value.get(name), inner, f"{place}.{name}")
    if known.items is not None:
        assert isinstance(value, list), place
        for item in value:
            assert_claimed(item, known.items, f"{place}[]")


def assert_single(value: object, known: DataType, place: str) -> None:
    """That a single value is of its type, within its bounds, and one of the choices."""
    is_whole = isinstance(value, float) and known.scalar == "int" and value.is_integer()
    assert is_whole or isinstance(value, PYTHON_TYPES[known.scalar or ""]), place
    assert isinstance(value, bool) is (known.scalar == "bool"), place
    assert not known.values or value in known.values, place
    if isinstance(value, int | float):
        assert known.minimum is None or known.minimum <= value, place
        assert known.maximum is None or value <= known.maximum, place


def tried(random: Random) -> str:
    """What became of one schema and data for it, after all that is claimed of them was true."""
    schema = whole(random)
    try:
        known = parse_type(schema)
    except NotationError:
        return "no type"
    value = near(random, schema, schema["$defs"])
    try:
        completed, faults = conform(value, known)
    except NotJudged:
        return "refers to itself"
    if faults:
        return "does not fit"
    try:
        assert conform(completed, known) == (completed, [])
        assert_claimed(completed, known, "$")
        facts = facts_of(completed, known)
        for name, single in single_values(known):
            if facts[name] is None:
                assert single.optional, name
            else:
                assert_single(facts[name], single, name)
    except AssertionError as error:
        error.add_note(f"{json.dumps(schema)} with {json.dumps(value)}")
        raise
    return "fits"


MANY = (pytest.param(share, marks=pytest.mark.long) for share in range(2, 40))


@pytest.mark.parametrize("share", [*range(2), *MANY])
def test_what_is_known_by_a_schema_is_true_of_all_data_that_fits_it(share: int) -> None:
    became = Counter(tried(Random(f"{share}:{number}")) for number in range(200))
    assert became["fits"] > 60, became
