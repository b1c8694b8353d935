"""JSON Schemas that would take for ever, lead nowhere or are none."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

from tests.hostile.data import KEYS, NUMBERS, value
from tests.hostile.texts import text

PATTERNS = (
    "^(a|a)*$", "^(a|aa)+$", "(x+x+)+y", "^([a-z]+)+$", "^(.*?,){25}P", "a{9999999}", "(", "[",
    "(?:a{1000}){1000}", "\\p{L}+", "(?<n>a)\\g<n>", "(?R)", "^$", "", ".", "(a?){40}a{40}", "\\",
    "(?i)" + "ab|" * 500,
)  # fmt: skip
REFERENCES = (
    "#", "#/$defs/a", "#/$defs/b", "#/nowhere", "#a", "http://127.0.0.1:9/a.json", "other.json",
    "../other.json", "file:///etc/passwd", "http://[", "#/$defs/%zz", "#/allOf/0", "#/allOf/x", "",
    "https://json-schema.org/draft/2020-12/schema", "?", "//", "#/$defs/a/$defs/a", "\u0000",
)  # fmt: skip
TYPES = (
    "string", "integer", "number", "boolean", "object", "array", "null", "text", 3, ["string", 1],
)  # fmt: skip
NUMBERED = ("minimum", "multipleOf", "minLength", "maxItems", "minContains", "maxProperties")
CHOICES: dict[str, Sequence[Any]] = {
    "type": TYPES,
    "pattern": PATTERNS,
    "$ref": REFERENCES,
    "$dynamicRef": REFERENCES,
    "$id": REFERENCES,
    "$anchor": ("a", "b", "", "1", 3),
    "$dynamicAnchor": ("a", "node"),
    "$schema": (*REFERENCES, "http://json-schema.org/draft-07/schema#", 5),
    "uniqueItems": (True, False, 1),
    "dependentRequired": ({"a": ["b"]}, {"a": 3}),
    **dict.fromkeys(NUMBERED, NUMBERS),
}
INNER = (
    "additionalProperties", "propertyNames", "unevaluatedProperties", "unevaluatedItems", "items",
    "contains", "not", "if", "then",
)  # fmt: skip
LISTED = ("allOf", "anyOf", "oneOf", "prefixItems")
MAPPED = ("properties", "patternProperties", "dependentSchemas", "$defs")
DATA = ("enum", "const", "default", "required", "x", "description")
WORDS = (*CHOICES, *INNER, *LISTED, *MAPPED, *DATA)


def schema(random: Random, depth: int = 4) -> Any:
    """A schema, or nearly one."""
    if depth <= 0 or random.random() < 0.1:
        return random.choice((True, False, {}, {"type": "string"}, {"$ref": "#"}))
    if random.random() < 0.1:
        return _doubling(random)
    words = random.choices(WORDS, k=random.choice((1, 2, 3, 6)))
    return {word: _word(random, word, depth) for word in words}


def usable(random: Random) -> dict[str, Any]:
    """A schema that has nothing wrong with its form, and only takes long or leads in circles."""
    kind = random.choice(("string", "object", "array"))
    around = {"a": {"$ref": "#/$defs/a"}}
    return random.choice(
        (
            {"type": kind, **_doubling(random)},
            {"type": "string", "pattern": random.choice(PATTERNS[:5])},
            {"type": "array", "uniqueItems": True, "items": {"$ref": "#"}},
            {"type": "object", "additionalProperties": {"pattern": PATTERNS[1]}},
            {"type": "object", "patternProperties": {PATTERNS[1]: False}},
            {"type": kind, "allOf": [{"$ref": "#"}]},
            {"type": kind, "not": {"not": {"$ref": "#/$defs/a"}}, "$defs": around},
        )
    )


def _word(random: Random, word: str, depth: int) -> Any:
    if word in CHOICES:
        return random.choice(CHOICES[word])
    if word in INNER:
        return schema(random, depth - 1)
    if word in LISTED:
        return [schema(random, depth - 1) for _ in range(random.choice((0, 1, 2, 3)))]
    if word in MAPPED:
        names = PATTERNS if word == "patternProperties" else KEYS
        many = random.choice((0, 1, 3))
        return {random.choice(names): schema(random, depth - 1) for _ in range(many)}
    return _data(random, word)


def _data(random: Random, word: str) -> Any:
    match word:
        case "required":
            return random.choices((*KEYS, 3), k=random.choice((0, 1, 3)))
        case "enum":
            return [value(random, 2) for _ in range(random.choice((0, 1, 50)))]
        case "description":
            return text(random, 2_000)
        case _:
            return value(random, 2)


def _doubling(random: Random) -> dict[str, Any]:
    word = random.choice(("allOf", "anyOf", "oneOf"))
    levels = random.choice((5, 12, 40))
    leaf = random.choice((True, {"type": "integer"}, {"minLength": 3}, False))
    defs: dict[str, Any] = {"d0": leaf}
    for level in range(1, levels):
        defs[f"d{level}"] = {word: [{"$ref": f"#/$defs/d{level - 1}"}] * 2}
    return {"$id": "doubling", "$ref": f"#/$defs/d{levels - 1}", "$defs": defs}
