"""Events of children: runs of another machine that a state begins, and what became of them."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from loopkit.engine.events.event import Event
from loopkit.engine.events.payloads import Feedback
from loopkit.engine.usage import Usage


class ChildStarted(Event, frozen=True, kw_only=True):
    """A child run is about to begin. Its own records belong to its own run."""

    type: ClassVar[str] = "child_started"
    area: ClassVar[str] = "children"
    state: str
    visit: int
    key: str
    """The key of its item; empty if the state has only one child."""
    child: str
    """The id of the child run."""
    definition: str
    """The digest of its resolved definition."""
    input: dict[str, Any]
    """Its complete input, including defaults."""
    isolate: Literal["none", "copy", "worktree"] = "none"
    """The kind of tree of its own in which the run works, whatever its machine says."""
    feedback: Feedback | None = None
    """The feedback for its first author, if the state was entered again."""
    index: int = 0
    """The position of its item in the list, from 0."""
    of: int = 1
    """The number of items in the list."""


class ChildEnded(Event, frozen=True, kw_only=True):
    """A child run has ended."""

    type: ClassVar[str] = "child_ended"
    area: ClassVar[str] = "children"
    state: str
    visit: int
    key: str
    result: dict[str, Any]
    """The child's part of the state's artifact."""
    usage: Usage
    """The usage of the child, including its own children."""
    time_s: float = 0.0
    """The seconds in which any child was working, since the last record of this run that counts
    them."""
