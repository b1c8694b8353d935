"""One call of a tool: what it is called with, and what comes of it."""

from __future__ import annotations

import json
from typing import Any

from loopkit.drive.active import ActiveRun
from loopkit.engine.findings import Finding
from loopkit.engine.records import Value
from loopkit.language.datatypes import conform, fault_texts
from loopkit.machine.asked import AgentAsked, ToolAsked
from loopkit.text import plural

MOST_FAULTS = 5
"""How many faults of its arguments a model is told."""


class ToolCalled(Value, frozen=True):
    """A call of a tool that can be made."""

    active: ActiveRun
    state: str
    """The state in which the agent writes."""
    asked: AgentAsked
    tool: ToolAsked
    name: str
    """`AGENT.TOOL`."""
    arguments: dict[str, Any]
    index: int
    """How many calls of this tool there were before in the run."""


class ToolResult(Value, frozen=True):
    """What a tool gave."""

    text: str
    exit_code: int | None = None
    found_clean: str | None = None
    """Of one that validates: the digest of a draft in which nothing blocks, else empty."""
    findings: tuple[Finding, ...] = ()
    """What it found in a draft."""


class BadArguments(Exception):
    """What a tool was called with can't be used; the message is for the model."""


def arguments_of(text: str, tool: ToolAsked) -> dict[str, Any]:
    """The arguments of a call as a model wrote them; raises BadArguments."""
    try:
        given = json.loads(text or "{}")
    except (ValueError, RecursionError) as error:
        raise BadArguments(f"the arguments are not JSON: {error}") from error
    if not isinstance(given, dict):
        raise BadArguments("the arguments are not a JSON object")
    if tool.rules is not None:
        # What is wrong with a draft is for the validators to say.
        missing = [name for name in tool.schema["required"] if name not in given]
        faults = [("", f"`{name}` is missing") for name in missing]
    elif (accepts := tool.tool.accepts) is not None:
        filled, faults = conform(given, accepts)
        given = filled if isinstance(filled, dict) else given
    else:
        faults = []
    if faults:
        told, more = fault_texts(faults[:MOST_FAULTS]), len(faults) - MOST_FAULTS
        told += [f"and {plural(more, 'other fault')}"] if more > 0 else []
        raise BadArguments(f"the arguments can't be used: {'; '.join(told)}")
    return given
