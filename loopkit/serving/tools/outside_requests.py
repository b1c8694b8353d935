"""Requests to outside agents, as tools return them: the prompt, and how to deliver."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from loopkit.drive.stored_runs import OpenQuestion
from loopkit.engine.events import Wanted

REQUEST: Mapping[str, Any] = {
    "type": "object",
    "description": "What is wanted from you: do what `prompt` says, and call `submit`.",
    "properties": {
        "id": {"type": "string", "description": "Names this request in `submit`."},
        "run": {"type": "string", "description": "The run that asks; `submit` names it."},
        "state": {"type": "string"},
        "attempt": {"type": "integer", "description": "From 1."},
        "prompt": {
            "type": "string",
            "description": "What to do, with what was found in the version before.",
        },
        "artifact": {"type": "string", "description": "What it is called."},
        "form": {"enum": ["text", "data", "file", "folder"]},
        "deliver": {"type": "string", "description": "How to deliver it."},
        "schema": {"type": "object", "description": "JSON Schema of data."},
        "workspace": {"type": "string", "description": "The folder to work in."},
        "path": {"type": "string", "description": "The file or folder in it."},
    },
    "required": ["id", "run", "state", "attempt", "prompt", "artifact", "form", "deliver"],
}


def request_of(asked: OpenQuestion, wanted: Wanted) -> dict[str, Any]:
    """The request of a run that waits for the `wanted` artifact."""
    optional = {
        "schema": wanted.json_schema,
        "workspace": wanted.workspace,
        "path": wanted.path,
    }
    return {
        "id": asked.question.question,
        "run": asked.state.run,
        "state": asked.state.state,
        "attempt": wanted.attempt,
        "prompt": asked.question.text,
        "artifact": wanted.artifact,
        "form": wanted.form,
        "deliver": _how(wanted),
        **{name: value for name, value in optional.items() if value},
    }


def _how(wanted: Wanted) -> str:
    if wanted.is_left:
        how = f"put it at {wanted.path!r} in the workspace, and submit without `artifact`"
        return how + ("; or submit a text as `artifact`" if wanted.takes_text else "")
    what = "the whole text" if wanted.form == "text" else "data that fits `schema`"
    where = ", after working in the workspace" if wanted.workspace else ""
    return f"submit {what} as `artifact`{where}"
