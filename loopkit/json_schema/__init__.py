"""JSON Schema: what data breaks in a schema, and what is wrong with a schema itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


class NotJudged(Exception):
    """Data could not be held against a schema; the message is a sentence with the cause."""


def schema_faults(value: object, schema: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What JSON data breaks in a JSON Schema, as (location such as `nodes[2].id`, message).

    Raises NotJudged.
    """
    # Costs 60 ms to import, and most commands judge no data.
    from jsonschema import Draft202012Validator  # noqa: PLC0415
    from referencing.exceptions import Unresolvable  # noqa: PLC0415

    errors = Draft202012Validator(schema).iter_errors(value)
    try:
        faults = sorted(errors, key=lambda error: list(map(str, error.path)))
    except Unresolvable as error:
        raise NotJudged(f"a `$ref` of the schema leads nowhere: {error}") from error
    return [(location_of(fault.absolute_path), _shortened(fault.message)) for fault in faults]


def schema_problem(schema: Mapping[str, Any]) -> str:
    """Why a mapping is no valid JSON Schema, or nothing."""
    from jsonschema import Draft202012Validator, SchemaError  # noqa: PLC0415 - as above

    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        return _shortened(error.message)
    return ""


def location_of(path: Sequence[str | int]) -> str:
    """`nodes[2].id` for ("nodes", 2, "id")."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".")


def _shortened(message: str, limit: int = 300) -> str:
    return message if len(message) <= limit else f"{message[: limit - 1]}…"


__all__ = ["NotJudged", "location_of", "schema_faults", "schema_problem"]
