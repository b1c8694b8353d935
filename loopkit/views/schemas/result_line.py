"""The schema of the last line of `--output jsonl`: where the run stopped, and with what."""

from __future__ import annotations

from typing import Any

RESULT = "result"
TEXT = {"type": "string"}
QUESTION = {"$ref": "#/definitions/Question"}
KEYS: dict[str, tuple[dict[str, Any], str]] = {
    "type": ({"const": RESULT}, "It is the last line of a command."),
    "run": (TEXT, "The run that was driven."),
    "machine": (TEXT, "Its machine."),
    "status": (TEXT, "`finished`, `cancelled`, `waiting`, `suspended`, or `running` if stopped."),
    "state": (TEXT, "The state in which it is."),
    "outcome": ({"type": ["string", "null"]}, "The name of the final state; null before that."),
    "success": ({"type": ["boolean", "null"]}, "Whether that is a success; null before that."),
    "result": ({"type": "object"}, "The artifacts of the final state by name."),
    "artifacts": (
        {"type": "object", "additionalProperties": {"$ref": "#/definitions/Version"}},
        "Of each of these which version it is, and how the run came to it.",
    ),
    "question": (
        {"anyOf": [{"type": "null"}, QUESTION]},
        "What the run itself asks; null if it asks nothing.",
    ),
    "questions": (
        {"type": "array", "items": QUESTION},
        "What its children ask: `run`, `item`, and the keys of a question.",
    ),
    "error": (TEXT, "Why it is suspended; empty if it is not."),
    "usage": ({"$ref": "#/definitions/Usage"}, "What it and its children have spent."),
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
