"""Events of a step: the work done, the edge taken, the state entered."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from loopkit.engine.events.event import Event, Outcome
from loopkit.engine.events.payloads import Artifact, Choice, Feedback, HumanAnswer, Ran, RefusedCall
from loopkit.engine.findings import Report


class Worked(Event, frozen=True, kw_only=True):
    """A state's work is complete."""

    type: ClassVar[str] = "worked"
    state: str
    visit: int
    outcome: Outcome
    """`done`, the class of the error, or `limit`."""
    facts: dict[str, Any] = {}
    """What guards may read of the work."""
    artifact: Artifact | None = None
    report: Report | None = None
    answer: HumanAnswer | None = None
    time_s: float = 0.0
    """Seconds of work that no call accounts for."""
    restored: dict[str, Artifact] = {}
    """Artifacts that a person's pick of the best makes the current ones again."""
    error: str = ""
    """What went wrong; empty with `done`."""
    remedy: str = ""
    """What a person can do about the error."""
    resume_at: float | None = None
    """Unix time at which the provider said that it is worth going on."""
    commands: tuple[Ran, ...] = ()
    """What the programs of command validators did, in order."""
    refused: RefusedCall | None = None
    """With `limit`: the call that was not made."""


class Baselined(Event, frozen=True, kw_only=True):
    """What the command of a rule with `baseline` found before the run's first work."""

    type: ClassVar[str] = "baselined"
    state: str
    """The state that asks the validator."""
    validator: str
    rule: str
    """The rule's key and position in it."""
    findings: tuple[str, ...] = ()
    """The ids of what it found."""
    commands: tuple[Ran, ...] = ()
    """What the program did, each try of it."""
    time_s: float = 0.0


class Captured(Event, frozen=True, kw_only=True):
    """A folder that is an artifact, as it was before an attempt."""

    type: ClassVar[str] = "captured"
    task: str
    """The work that begins with it."""
    state: str
    artifact: str
    place: str
    """Where the folder is."""
    tree: str
    """The digest under which its files are kept."""
    times: str
    """A digest that is another one if any file was written since."""


class Isolated(Event, frozen=True, kw_only=True):
    """A workspace has a tree of its own, in which the run works."""

    type: ClassVar[str] = "isolated"
    source: str
    """The workspace."""
    kind: Literal["copy", "worktree"]
    place: str
    """The folder in which the run works instead."""
    base: str
    """The digest of the files that it began with, under which they are kept."""


class Merging(Event, frozen=True, kw_only=True):
    """The work in an isolated tree is about to be merged into its workspace."""

    type: ClassVar[str] = "merging"
    source: str
    before: str
    """The digest of the workspace's files."""
    after: str
    """The digest of what they are to be."""


class Merged(Event, frozen=True, kw_only=True):
    """The work in an isolated tree is in its workspace."""

    type: ClassVar[str] = "merged"
    source: str
    files: tuple[str, ...] = ()
    """The paths that have changed there."""


class Restored(Event, frozen=True, kw_only=True):
    """Folders are again what they were in the round that was picked as the best."""

    type: ClassVar[str] = "restored"
    artifacts: tuple[str, ...]


class Adding(Event, frozen=True, kw_only=True):
    """A state is about to add a text to a file, which it does once."""

    type: ClassVar[str] = "adding"
    state: str
    visit: int
    file: str
    after: int
    """How many bytes the file has before."""


class Decided(Event, frozen=True, kw_only=True):
    """Which edge was taken, why, and what it costs."""

    type: ClassVar[str] = "decided"
    edge: str
    """The id of the edge: `check[2]`, `draft.on_error.fatal`, `draft.limit`."""
    source: str
    target: str
    facts: dict[str, Any] = {}
    """Everything that the guards could read."""
    bits: tuple[bool, ...] = ()
    """One for each candidate edge: whether it was enabled."""
    spends: tuple[str, ...] = ()
    """The counters that it takes one revision from."""
    resets: tuple[str, ...] = ()
    """The counters that start at zero again."""
    feedback: tuple[Feedback, ...] = ()
    """What the states behind the edge are told."""


class Emitted(Event, frozen=True, kw_only=True):
    """An event that the author of the machine asked for with `emit:`."""

    type: ClassVar[str] = "emitted"
    name: str
    state: str
    attempt: int
    findings: tuple[dict[str, Any], ...] = ()


class Entered(Event, frozen=True, kw_only=True):
    """A state becomes active."""

    type: ClassVar[str] = "entered"
    state: str
    visit: int
    """How often the state has been entered, this time included."""
    attempt: int
    """How often the state has worked, this time included."""
    by: str | None = None
    """The edge that led here; none at the start."""


class Waiting(Event, frozen=True, kw_only=True):
    """The run waits for a person."""

    type: ClassVar[str] = "waiting"
    state: str
    question: str
    """The question's id; an answer names it."""
    text: str
    """The question as the person sees it."""
    choices: tuple[Choice, ...]
    expires_at: float | None = None
    """Unix time at which `otherwise` answers."""
    otherwise: str | None = None
    """The choice that counts after that."""
    form: dict[str, Any] = {}
    """The fields that an answer fills in, in the notation of types."""
    edit: str | None = None
    """The artifact that an answer may replace by an edited version."""
    call: str | None = None
    """The key of a call in doubt, where that is what is asked about."""
