"""JSON Schema: violations of a schema in data, and mistakes in a schema itself.

The draft is 2020-12. However hostile data and schema are, judging takes no longer than its time,
which grows with the size of the data, and nothing is fetched from anywhere.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any

from loopkit.language.json_schema.judging import Flaw, NotJudged
from loopkit.language.json_schema.silence import Silence, silences
from loopkit.text import shorten

MAX_FAULTS = 50
"""The maximum number of faults reported for some data; a mistake made everywhere needs no more."""
MESSAGE_CHARS = 300


def schema_faults(value: object, schema: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The violations of a JSON Schema in JSON data, as (location such as `nodes[2].id`, message).

    The first 50 in the order of their locations. Raises NotJudged.
    """
    # The library costs 60 ms to import, and most commands judge no data.
    from loopkit.language.json_schema.validation import errors  # noqa: PLC0415

    found = errors(value, schema, most=MAX_FAULTS)
    return [
        (location_of(error.absolute_path), shorten(error.message, MESSAGE_CHARS)) for error in found
    ]


def broken_fields(value: object, schema: Mapping[str, Any]) -> frozenset[str]:
    """The fields of a mapping in which something breaks a JSON Schema. Raises NotJudged."""
    from loopkit.language.json_schema.validation import errors  # noqa: PLC0415 - as above

    found = errors(value, schema, most=None)
    return frozenset(str(error.absolute_path[0]) for error in found if error.absolute_path)


def schema_problem(schema: Mapping[str, Any]) -> Flaw | None:
    """The first mistake that makes a mapping unusable as a JSON Schema."""
    return next(iter(schema_problems(schema)), None)


def schema_problems(schema: Mapping[str, Any]) -> tuple[Flaw, ...]:
    """The first mistakes that make a mapping unusable as a JSON Schema."""
    # A notation is read again wherever it is needed.
    return _problems_of(json.dumps(schema, default=str))


def keywords() -> frozenset[str]:
    """The keywords with which a JSON Schema judges data."""
    from loopkit.language.json_schema.validation import KEYWORDS  # noqa: PLC0415 - as above

    return KEYWORDS


def silent_parts(schema: Mapping[str, Any]) -> Iterator[Silence]:
    """The parts of a schema that let everything pass because they have no keyword."""
    return silences(schema, keywords())


def location_of(path: Sequence[str | int]) -> str:
    """`nodes[2].id` for ("nodes", 2, "id")."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".")


@lru_cache(maxsize=64)
def _problems_of(text: str) -> tuple[Flaw, ...]:
    from loopkit.language.json_schema.soundness import flaws  # noqa: PLC0415 - as above

    found = islice(flaws(json.loads(text)), MAX_FAULTS)
    return tuple(flaw.replace(message=shorten(flaw.message, MESSAGE_CHARS)) for flaw in found)


__all__ = [
    "Flaw",
    "NotJudged",
    "Silence",
    "broken_fields",
    "keywords",
    "schema_faults",
    "schema_problem",
    "schema_problems",
    "silent_parts",
]
