"""The base of all events: type and format version."""

from __future__ import annotations

from typing import ClassVar, Literal

from loopkit.engine.records import Record

EVENT_VERSION = 1
Role = Literal["author", "judge", "run", "tool", "outside"]
OF_AGENTS: tuple[Role, ...] = ("author", "judge")
"""The roles in which loopkit calls an agent, and no command or tool."""
OF_AUTHORS: tuple[Role, ...] = ("author", "outside")
"""The roles in which an agent writes: one that is called, or somebody outside."""
Policy = Literal["retry", "ask", "fail"]
Outcome = Literal["done", "transient", "content", "fatal", "limit"]


class Event(Record, frozen=True, kw_only=True):
    """What every record of a run has in common."""

    type: ClassVar[str]
    """The kind of event, which determines its other keys."""
    area: ClassVar[str]
    """What it is about, by which the log of runs names its logger."""
    version: int = EVENT_VERSION
    """The version of the format. Keys can be added without a new version."""
