"""The schema of the last line of `--output jsonl`: where the run stopped, and with what."""

from __future__ import annotations

from typing import Any

RESULT = "result"
TEXT = {"type": "string"}
QUESTION = {"$ref": "#/definitions/Question"}
KEYS: dict[str, tuple[dict[str, Any], str]] = {
    "type": ({"const": RESULT}, "Marks the last line of a command."),
    "run": (TEXT, "The id of the run."),
    "machine": (TEXT, "The name of its machine."),
    "status": (TEXT, "`finished`, `cancelled`, `waiting`, `suspended`, or `running` if stopped."),
    "state": (TEXT, "The current state of the run."),
    "outcome": (
        {"type": ["string", "null"]},
        "The name of the final state; null before it is reached.",
    ),
    "success": (
        {"type": ["boolean", "null"]},
        "Whether the final state is a success; null before it is reached.",
    ),
    "result": ({"type": "object"}, "The artifacts of the result, by name."),
    "artifacts": (
        {"type": "object", "additionalProperties": {"$ref": "#/definitions/Version"}},
        "For each of these artifacts: its version, and how the run came to it.",
    ),
    "question": (
        {"anyOf": [{"type": "null"}, QUESTION]},
        "The open question of the run itself; null if there is none.",
    ),
    "questions": (
        {"type": "array", "items": QUESTION},
        "The open questions of its children: `run`, `item`, and the keys of a question.",
    ),
    "error": (TEXT, "Why the run is suspended; empty if it is not."),
    "usage": ({"$ref": "#/definitions/Usage"}, "The usage of the run and its children."),
    "exit": ({"type": "integer"}, "The exit code of the command."),
}
"""By key: its type, and its description."""


def result_line() -> dict[str, Any]:
    """The definition of the line; it refers to those of `Question`, `Usage` and `Version`."""
    return {
        "description": "The last line that `--output jsonl` prints.",
        "type": "object",
        "properties": {key: {**kind, "description": says} for key, (kind, says) in KEYS.items()},
        "required": list(KEYS),
    }
