"""Events of a step: the work done, the edge taken, the state entered."""

from __future__ import annotations

from typing import Any, ClassVar

from loopkit.engine.events.event import Event, Outcome
from loopkit.engine.events.payloads import (
    Artifact,
    Best,
    Choice,
    Considered,
    Deferral,
    Feedback,
    HumanAnswer,
    Ran,
    Wanted,
)
from loopkit.engine.failure import Failure
from loopkit.engine.findings import Finding, Report
from loopkit.engine.usage import RefusedCall


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
    considered: Considered | None = None
    """Of an answer: what it is about, where anything was judged before."""
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
    made_from: str = ""
    """A digest of all that the work depended on, where its state may be kept."""

    @classmethod
    def with_failure(cls, state: str, visit: int, failure: Failure) -> Worked:
        """Work that came to nothing."""
        return cls(
            state=state,
            visit=visit,
            outcome=failure.error_class,
            error=failure.message,
            remedy=failure.remedy,
            resume_at=failure.resume_at,
            refused=failure.refused,
        )


class Kept(Event, frozen=True, kw_only=True):
    """A state that was entered again has no work to do: it would make what it made before."""

    # Its transitions are decided as after its last work.
    type: ClassVar[str] = "kept"
    state: str
    visit: int


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


class Decided(Event, frozen=True, kw_only=True):
    """Which edge was taken, why, and what it costs."""

    type: ClassVar[str] = "decided"
    edge: str
    """The id of the edge: `check[2]`, `draft.on_error.fatal`, `draft.limit`."""
    source: str
    target: str
    facts: dict[str, Any] = {}
    """Everything that the guards could read."""
    left_because: str | None = None
    """Why the loop ended otherwise than accepted: `exhausted`, `infeasible`, `fatal`; empty where
    it was, none where the edge says nothing about that."""
    bits: tuple[bool, ...] = ()
    """One for each candidate edge: whether it was enabled."""
    spends: tuple[str, ...] = ()
    """The counters that it takes one revision from."""
    resets: tuple[str, ...] = ()
    """The counters that start at zero again."""
    feedback: tuple[Feedback, ...] = ()
    """What the states behind the edge are told."""
    deferrals: tuple[Deferral, ...] = ()
    """What was found for later states, which are told when they work again."""
    best: Best | None = None
    """The version to which the edge goes back, where that is an earlier one."""

    @property
    def revision(self) -> Feedback | None:
        """What a revise edge tells, with its number; none where the same work is judged again."""
        return self.feedback[0] if self.spends and self.feedback else None


class Alerted(Event, frozen=True, kw_only=True):
    """A figure of the run has passed the threshold that its machine sets."""

    type: ClassVar[str] = "alerted"
    figure: str
    """`correction_rate`."""
    value: float
    threshold: float
    works: int
    """How often states of the run have written so far."""
    corrections: int
    """How many of these works were corrections."""


class Emitted(Event, frozen=True, kw_only=True):
    """An event that the author of the machine asked for with `emit:`."""

    type: ClassVar[str] = "emitted"
    name: str
    state: str
    """The state that begins, or that the edge leads out of."""
    attempt: int
    """How often authors have begun to work on the artifact, from 1; a fallback is no attempt."""
    artifact: str = ""
    """The artifact that it is about: what the state writes or judges, else what was judged last."""
    artifact_version: int = 0
    """Which version of it in the run, from 1, over authors and fallbacks; one that is being
    written has its number already. 0 where there is none."""
    phase: str = ""
    """The phase that this event names, else the one before it."""
    source: str = ""
    """Who made the version: the state, or what the machine calls it."""
    fallback: str = ""
    """Why there is a fallback instead, where the version is one."""
    findings: tuple[Finding, ...] = ()
    """All that was found in the version, or before work that begins: warnings, too."""
    reason: str = ""
    """Why there is no verdict, or no version: an error, or that it can't be done."""


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
    """The run waits for the answer of a person, or for an artifact from outside."""

    type: ClassVar[str] = "waiting"
    state: str
    question: str
    """The question's id; an answer or a delivery names it."""
    text: str
    """The question as the person sees it; of an artifact the prompt."""
    choices: tuple[Choice, ...]
    """None where an artifact is wanted."""
    expires_at: float | None = None
    """Unix time at which `otherwise` answers, or nobody delivers any more."""
    otherwise: str | None = None
    """The choice that counts after that."""
    form: dict[str, Any] = {}
    """The fields that an answer fills in, in the notation of types."""
    edit: str | None = None
    """The artifact that an answer may replace by an edited version."""
    call: str | None = None
    """The key of a call in doubt, where that is what is asked about."""
    wanted: Wanted | None = None
    """The artifact that has to be delivered, where that is what is waited for."""
