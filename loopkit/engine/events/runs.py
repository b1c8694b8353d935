"""Events of a run's life: started, claimed, suspended, resumed, finished."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from loopkit.engine.events.event import Event
from loopkit.engine.events.payloads import Change, Feedback, Ran, Version
from loopkit.engine.usage import RefusedCall


class Started(Event, frozen=True, kw_only=True):
    """A run begins; its input is complete, defaults included."""

    type: ClassVar[str] = "started"
    run: str
    machine: str
    definition: str
    """Digest of the resolved definition."""
    script: str | None = None
    """Digest of the scenario that plays the agents."""
    folder: str
    """The project folder; workspaces are inside."""
    input: dict[str, Any]
    """The whole input, defaults included."""
    limits: dict[str, Any] = {}
    """Limits that the command line set over the machine's."""
    isolate: Literal["none", "copy", "worktree"] = "none"
    """In which tree of its own it works, whatever its machine says."""
    feedback: Feedback | None = None
    """What its first author is told, where it is a child that is run again."""


class Claimed(Event, frozen=True, kw_only=True):
    """A process took the run over; everything it writes carries the new epoch."""

    type: ClassVar[str] = "claimed"
    pid: int = 0
    host: str = ""


class Suspended(Event, frozen=True, kw_only=True):
    """The run stopped where it was; `resume` goes on."""

    type: ClassVar[str] = "suspended"
    state: str
    reason: Literal["limit", "transient", "content", "fatal", "interrupted", "waiting"]
    """Why the run stopped: a limit, a class of error, Ctrl-C, or a child that waits for a
    person."""
    message: str
    remedy: str = ""
    resume_at: float | None = None
    """Unix time from which it makes sense to go on."""
    commands: tuple[Ran, ...] = ()
    """What the programs of command validators did in the work that came to no end."""
    time_s: float = 0.0
    """Seconds of that work that no call accounts for."""
    refused: RefusedCall | None = None
    """With `limit`: the call that was not made."""

    @property
    def is_pause(self) -> bool:
        """Whether nothing went wrong: somebody stopped the run, or its children are asked."""
        return self.reason in ("interrupted", "waiting")


class Resumed(Event, frozen=True, kw_only=True):
    """Somebody asked the run to go on."""

    type: ClassVar[str] = "resumed"
    limits: dict[str, Any] = {}
    """Limits that were raised, by name."""


class Repaired(Event, frozen=True, kw_only=True):
    """The run goes on with another definition, into which what it has done so far was fitted."""

    type: ClassVar[str] = "repaired"
    definition: str
    """Digest of the resolved definition that holds from here on."""
    changes: tuple[Change, ...] = ()
    """What it says otherwise than the one before."""
    edges: dict[str, str] = {}
    """The new ids of edges that were taken, or that word what waits for a state, where they have
    others now; none where there is no such edge any more."""
    counters: dict[str, int] = {}
    """What the edges taken have spent, by the counters that they own now."""
    tasks: dict[str, str] = {}
    """The new names of work in hand; empty where nobody is asked for it any more."""
    input: dict[str, Any] = {}
    """Inputs that came with it, by their defaults."""
    limits: tuple[str, ...] = ()
    """Limits that were set for the run, and are those of the definition again."""


class Refused(Event, frozen=True, kw_only=True):
    """A message of the inbox that could not be followed."""

    type: ClassVar[str] = "refused"
    message_id: str
    reason: str


class Finished(Event, frozen=True, kw_only=True):
    """The run is over."""

    type: ClassVar[str] = "finished"
    outcome: str
    """The name of the final state."""
    success: bool
    """Whether that is a success."""
    result: dict[str, Any] = {}
    """The artifacts that the run ends with, by name."""
    picked: dict[str, Version] = {}
    """For each artifact of the result: which version it is and how the run came to it."""
    absent: tuple[str, ...] = ()
    """Artifacts of the result that this path never made."""
    left: tuple[str, ...] = ()
    """The trees of a failed run, which are left as they are."""
    conflicts: tuple[str, ...] = ()
    """Files that could not be merged, because they had changed in the workspace as well."""


class Cancelled(Event, frozen=True, kw_only=True):
    """Somebody ended the run."""

    type: ClassVar[str] = "cancelled"
    reason: str = ""


ENDS = (Finished.type, Cancelled.type)
"""The types of the events behind which nothing comes."""
