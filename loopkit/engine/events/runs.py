"""Events of a run's life: started, claimed, suspended, resumed, finished."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from loopkit.engine.events.event import Event
from loopkit.engine.events.payloads import Change, Feedback, Ran, Version
from loopkit.engine.usage import RefusedCall
from loopkit.values import NOTHING


class Started(Event, frozen=True, kw_only=True):
    """A run begins."""

    type: ClassVar[str] = "started"
    area: ClassVar[str] = "runs"
    run: str
    machine: str
    definition: str
    """The digest of the resolved definition."""
    script: str | None = None
    """The digest of the scenario that plays the agents."""
    folder: str
    """The project folder, which contains all workspaces."""
    input: dict[str, Any]
    """The complete input, including defaults."""
    limits: dict[str, Any] = NOTHING
    """The limits from the command line, which replace those of the machine."""
    isolate: Literal["none", "copy", "worktree"] = "none"
    """The kind of tree of its own in which the run works, whatever its machine says."""
    feedback: Feedback | None = None
    """The feedback for the first author, if the run is a child that is run again."""


class Claimed(Event, frozen=True, kw_only=True):
    """A process took over the run. Everything that it writes has the new epoch."""

    type: ClassVar[str] = "claimed"
    area: ClassVar[str] = "runs"
    pid: int = 0
    host: str = ""


class Suspended(Event, frozen=True, kw_only=True):
    """The run has stopped in its current state; `resume` continues it."""

    type: ClassVar[str] = "suspended"
    area: ClassVar[str] = "runs"
    state: str
    reason: Literal["limit", "transient", "content", "fatal", "interrupted", "waiting"]
    """Why the run stopped: a limit, a class of error, an interruption, or a child that waits for a
    person."""
    message: str
    remedy: str = ""
    resume_at: float | None = None
    """The Unix time from which it makes sense to continue."""
    commands: tuple[Ran, ...] = ()
    """The results of command validators in the unfinished work."""
    time_s: float = 0.0
    """The seconds of unfinished work outside of calls."""
    refused: RefusedCall | None = None
    """With `limit`: the call that was not made."""

    @property
    def is_pause(self) -> bool:
        """Whether nothing went wrong: somebody stopped the run, or its children are asked."""
        return self.reason in ("interrupted", "waiting")


class Resumed(Event, frozen=True, kw_only=True):
    """The run was asked to continue."""

    type: ClassVar[str] = "resumed"
    area: ClassVar[str] = "runs"
    limits: dict[str, Any] = NOTHING
    """The limits that were raised, by name."""


class Repaired(Event, frozen=True, kw_only=True):
    """The run continues with another definition, to which its progress was fitted."""

    type: ClassVar[str] = "repaired"
    area: ClassVar[str] = "runs"
    definition: str
    """The digest of the resolved definition that applies from here on."""
    changes: tuple[Change, ...] = ()
    """The differences from the previous definition."""
    edges: dict[str, str] = NOTHING
    """The new ids of edges that the run knows by other ids; empty for an edge that no longer
    exists."""
    counters: dict[str, int] = NOTHING
    """The revisions used so far, by the counters of the new definition."""
    tasks: dict[str, str] = NOTHING
    """The new names of unfinished work; empty if nobody is asked for it any more."""
    input: dict[str, Any] = NOTHING
    """New inputs, with their default values."""
    limits: tuple[str, ...] = ()
    """The limits that were set for the run and now follow the definition again."""


class Refused(Event, frozen=True, kw_only=True):
    """A message in the inbox that could not be acted on."""

    type: ClassVar[str] = "refused"
    area: ClassVar[str] = "runs"
    message_id: str
    reason: str


class Finished(Event, frozen=True, kw_only=True):
    """The run has reached a final state."""

    type: ClassVar[str] = "finished"
    area: ClassVar[str] = "runs"
    outcome: str
    """The name of the final state."""
    success: bool
    """Whether the final state is a success."""
    result: dict[str, Any] = NOTHING
    """The artifacts of the result, by name."""
    picked: dict[str, Version] = NOTHING
    """For each artifact of the result: its version, and how the run came to it."""
    absent: tuple[str, ...] = ()
    """Artifacts of the result that this path never wrote."""
    left: tuple[str, ...] = ()
    """The isolated trees of a failed run, which are left unmerged."""
    conflicts: tuple[str, ...] = ()
    """Files that could not be merged, because they had also changed in the workspace."""


class Cancelled(Event, frozen=True, kw_only=True):
    """The run was cancelled."""

    type: ClassVar[str] = "cancelled"
    area: ClassVar[str] = "runs"
    reason: str = ""


ENDS = (Finished.type, Cancelled.type)
"""The types of the events behind which nothing comes."""
