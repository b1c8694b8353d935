"""Events of children: runs of another machine that a state begins, and what became of them."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from loopkit.engine.events.event import Event
from loopkit.engine.events.payloads import Feedback
from loopkit.engine.usage import Usage


class ChildStarted(Event, frozen=True, kw_only=True):
    """A child is about to begin; its own records are those of its own run."""

    type: ClassVar[str] = "child_started"
    state: str
    visit: int
    key: str
    """What names its item in the state; empty where there is only one."""
    child: str
    """The id of its run."""
    definition: str
    """Digest of its resolved definition."""
    input: dict[str, Any]
    """Its whole input, defaults included."""
    isolate: Literal["none", "copy", "worktree"] = "none"
    """In which tree of its own it works, whatever its machine says."""
    feedback: Feedback | None = None
    """What its first author is told, where the state was entered again."""
    index: int = 0
    """The place of its item in the list, from 0."""
    of: int = 1
    """How many items the list has."""


class ChildEnded(Event, frozen=True, kw_only=True):
    """A child is over."""

    type: ClassVar[str] = "child_ended"
    state: str
    visit: int
    key: str
    result: dict[str, Any]
    """What the state's artifact holds of it."""
    usage: Usage
    """What it has spent, its own children included."""
    time_s: float = 0.0
    """Seconds in which any child was at work since the last record of this run that says so."""
