"""The interface of plug-ins: a function of Python that judges an artifact.

    from loopkit.plugins import Context, Finding

    def check(plan: dict, context: Context) -> list[Finding]:
        return [
            Finding(f"{node['id']} needs too much", location=f"nodes[{index}]")
            for index, node in enumerate(plan["nodes"])
            if len(node["needs"]) > context.arguments["most"]
        ]

A rule names it: `python: module:check`, with `with: {most: 3}`. An empty list passes. A finding
may be a text or a mapping with these fields as well. Whatever goes wrong is no verdict, and costs
the author of the artifact nothing: an exception, a process that ends, a timeout, a value of
another form, None included.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

CALL: ContextVar[str] = ContextVar("loopkit_call", default="")
"""The key of the call that this code serves; empty outside of calls. A call that is made again
because it is in doubt has the same one, so that what it asks for can be done once."""
CALL_VARIABLE = "LOOPKIT_CALL"
"""The environment variable with the same key, for programs."""


@contextmanager
def serving(call: str) -> Iterator[None]:
    before = CALL.set(call)
    try:
        yield
    finally:
        CALL.reset(before)


ENTRY_POINTS = "loopkit.validators"
"""The group of entry points under which a package offers plug-ins by name."""


@dataclass(frozen=True, slots=True)
class Context:
    """What a plug-in is told besides the value of the artifact: its text, or its data."""

    artifact: str
    """The name of the artifact."""
    attempt: int
    """How often its author has worked, from 1."""
    input: Mapping[str, Any]
    """The input of the run."""
    arguments: Mapping[str, Any]
    """What the rule says under `with:`."""
    seen: Mapping[str, Any] = field(default_factory=dict)
    """What the rule names under `sees:`, by these names: texts, or data. What is missing is left
    out."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One defect of the artifact."""

    message: str
    """What is wrong and what is expected, for its author."""
    severity: str = ""
    """One of the machine's levels; without it that of the rule. The rule's is the worst."""
    code: str = ""
    """The kind of defect, where the rule has no code."""
    location: str = ""
    """Where in the data, such as `nodes[2].id`, or in which part of the text."""
    key: str = ""
    """What the defect is called in every round, where the message may be worded otherwise."""
    line: int | None = None
    """Where in the text, from 1."""
    fields: Mapping[str, Any] = field(default_factory=dict)
    """What else there is to say of it, as JSON data by name, such as `{"capabilityId": "mail"}`."""
