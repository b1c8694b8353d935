"""The schema of the lines that `loopkit runs logs --jsonl` and `--output jsonl` print."""

from __future__ import annotations

from typing import Any

from loopkit.engine.events import EVENTS, Usage, Version, Waiting
from loopkit.views.schemas.generate import DRAFT_07
from loopkit.views.schemas.records import records_of
from loopkit.views.schemas.result_line import RESULT, result_line

HEAD: dict[str, dict[str, str]] = {
    "run": {"type": "string", "description": "The id of the run. Children are runs of their own."},
    "seq": {"type": "integer", "description": "The position in the run, from 1, without gaps."},
    "epoch": {
        "type": "integer",
        "description": "The epoch of the owner that wrote it; each claim begins a new one.",
    },
    "time": {"type": "number", "description": "The Unix time at which it was stored."},
}
"""The keys that every event has besides its own."""
DESCRIPTION = (
    "One event of a run, as a line of `--output jsonl` or `runs logs --jsonl`; the last line of "
    "`--output jsonl` is the result. `type` determines the other keys; `version` is the version of "
    "the format. Ignore keys and types that you do not know: later versions may add some, and "
    "remove none."
)


def event_schema() -> dict[str, Any]:
    """The JSON Schema of one printed event. Keys and types that it does not name are allowed."""
    definitions = records_of([*EVENTS.values(), Usage, Version])
    definitions["Question"] = definitions[Waiting.__name__]
    for name, noun in EVENTS.items():
        definitions[noun.__name__] = _with_head(name, definitions[noun.__name__])
    definitions["Result"] = result_line()
    named = {**{name: noun.__name__ for name, noun in EVENTS.items()}, RESULT: "Result"}
    return {
        "$schema": DRAFT_07,
        "description": DESCRIPTION,
        "type": "object",
        "properties": {"type": {"type": "string", "examples": list(named)}},
        "required": ["type"],
        "allOf": [_of_type(name, definition) for name, definition in named.items()],
        "definitions": definitions,
    }


def _with_head(name: str, record: dict[str, Any]) -> dict[str, Any]:
    kind = {"const": name, "description": "The kind of event, which determines its other keys."}
    properties = {**HEAD, "type": kind, **record["properties"]}
    return {**record, "properties": properties, "required": list(properties)}


def _of_type(name: str, definition: str) -> dict[str, Any]:
    is_this = {"properties": {"type": {"const": name}}, "required": ["type"]}
    return {"if": is_this, "then": {"$ref": f"#/definitions/{definition}"}}
