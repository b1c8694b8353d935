"""Silent schemas: parts of one that let everything pass because no word in them is a keyword.

JSON Schema passes over words that it does not know, so a slip makes no mistake of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from loopkit.language.json_schema.layout import DEFINITIONS, Path, inner_schemas
from loopkit.language.json_schema.local import part_at, steps_of, with_local_references
from loopkit.values import Value

ABOUT_SCHEMA = frozenset(
    {
        "$anchor", "$comment", "$dynamicAnchor", "$id", "$schema", "$vocabulary", "contentEncoding",
        "contentMediaType", "contentSchema", "default", "deprecated", "description", "examples",
        "readOnly", "title", "writeOnly",
    }
)  # fmt: skip
"""Keywords that judge nothing: with these alone a schema means to allow anything."""


class Silence(Value, frozen=True):
    """A schema that says something, and nothing that data could break."""

    steps: Path
    referred_from: Path
    """The part whose `$ref` leads there; without one, the same."""
    words: frozenset[str]
    """Unknown keywords, and definitions."""


def silences(schema: Mapping[str, Any], keywords: frozenset[str]) -> Iterator[Silence]:
    """The silent schemas among those that judge data, each once.

    References to anchors are not followed.
    """
    whole = with_local_references(schema)
    waiting: list[tuple[Path, Path]] = [((), ())]
    seen: set[Path] = set()
    while waiting:
        steps, origin = waiting.pop()
        part = part_at(whole, steps)
        if steps in seen or not isinstance(part, Mapping):
            continue
        seen.add(steps)
        words = frozenset(part) - ABOUT_SCHEMA
        if words and not words & keywords:
            yield Silence(steps, origin, words)
        inner = ((*steps, *step) for step, _ in inner_schemas(part) if step[0] not in DEFINITIONS)
        waiting += [(path, path) for path in inner]
        reference = part.get("$ref")
        target = steps_of(reference) if isinstance(reference, str) else None
        if target is not None:
            waiting.append((target, steps))
