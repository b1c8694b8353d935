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
from loopkit.values import NOTHING


class Worked(Event, frozen=True, kw_only=True):
    """A state has completed its work."""

    type: ClassVar[str] = "worked"
    area: ClassVar[str] = "steps"
    state: str
    visit: int
    outcome: Outcome
    """`done`, the class of the error, or `limit`."""
    facts: dict[str, Any] = NOTHING
    """The facts of the work that guards can read."""
    artifact: Artifact | None = None
    report: Report | None = None
    answer: HumanAnswer | None = None
    considered: Considered | None = None
    """For an answer: the report that it is about, if anything was judged before."""
    time_s: float = 0.0
    """The seconds of work outside of calls."""
    restored: dict[str, Artifact] = NOTHING
    """The artifacts that become current again because a person was shown the best version."""
    error: str = ""
    """The error message; empty if the outcome is `done`."""
    remedy: str = ""
    """A remedy for the error, for a person to apply."""
    resume_at: float | None = None
    """The Unix time from which the provider says that it makes sense to continue."""
    commands: tuple[Ran, ...] = ()
    """The results of command validators, in order."""
    refused: RefusedCall | None = None
    """With `limit`: the call that was not made."""
    made_from: str = ""
    """A digest of everything that the work depended on, if the state can keep its artifact."""

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
    """A state was entered again and keeps its artifact, because nothing of its work has changed."""

    # Its transitions are decided as after its last work.
    type: ClassVar[str] = "kept"
    area: ClassVar[str] = "steps"
    state: str
    visit: int


class Baselined(Event, frozen=True, kw_only=True):
    """The findings of a rule with `baseline` before the run's first work."""

    type: ClassVar[str] = "baselined"
    area: ClassVar[str] = "steps"
    state: str
    """The state that uses the validator."""
    validator: str
    rule: str
    """The key of the rule and its position in the validator."""
    findings: tuple[str, ...] = ()
    """The ids of the findings."""
    commands: tuple[Ran, ...] = ()
    """The results of the program, one for each try."""
    time_s: float = 0.0


class Decided(Event, frozen=True, kw_only=True):
    """The edge that was taken, the reason, and the revisions that it uses."""

    type: ClassVar[str] = "decided"
    area: ClassVar[str] = "steps"
    edge: str
    """The id of the edge: `check[2]`, `draft.on_error.fatal`, `draft.limit`."""
    source: str
    target: str
    facts: dict[str, Any] = NOTHING
    """The facts that the guards could read."""
    left_because: str | None = None
    """Why the loop ended without acceptance, such as `exhausted`, `infeasible` or `fatal`. Empty if
    the artifact was accepted; null if the edge does not say."""
    bits: tuple[bool, ...] = ()
    """For each candidate edge: whether it was enabled."""
    spends: tuple[str, ...] = ()
    """The counters that are charged one revision each."""
    resets: tuple[str, ...] = ()
    """The counters that are reset to zero."""
    feedback: tuple[Feedback, ...] = ()
    """The feedback for the states that the edge leads to."""
    deferrals: tuple[Deferral, ...] = ()
    """Findings for later states, which receive them when they work again."""
    best: Best | None = None
    """The version that the edge goes back to, if it is an earlier one."""

    @property
    def revision(self) -> Feedback | None:
        """What a revise edge tells, with its number; none where the same work is judged again."""
        return self.feedback[0] if self.spends and self.feedback else None


class Alerted(Event, frozen=True, kw_only=True):
    """A figure of the run has passed the threshold that the machine sets."""

    type: ClassVar[str] = "alerted"
    area: ClassVar[str] = "steps"
    figure: str
    """The name of the figure: `correction_rate`."""
    value: float
    threshold: float
    works: int
    """The number of works so far."""
    corrections: int
    """The number of these works that were corrections."""


class Emitted(Event, frozen=True, kw_only=True):
    """An event that the machine's author requested with `emit:`."""

    type: ClassVar[str] = "emitted"
    area: ClassVar[str] = "steps"
    name: str
    state: str
    """The state that begins, or that the edge leads out of."""
    attempt: int
    """How many times authors have begun to work on the artifact, from 1. A fallback is not an
    attempt."""
    artifact: str = ""
    """The artifact that the event is about: the one that the state writes or judges, or else the
    last one judged."""
    artifact_version: int = 0
    """The number of its version in the run, from 1, including fallbacks and a version that is still
    being written; 0 if there is none."""
    phase: str = ""
    """The phase that this event names, or else the phase before it."""
    source: str = ""
    """The maker of the version: the state, or the name that the machine gives."""
    fallback: str = ""
    """The reason for the fallback, if the version is one."""
    findings: tuple[Finding, ...] = ()
    """All findings about the version, or those that the work begins with, including warnings."""
    reason: str = ""
    """Why there is no verdict or no version: an error, or that the author declared that it cannot
    be done."""


class Entered(Event, frozen=True, kw_only=True):
    """A state becomes active."""

    type: ClassVar[str] = "entered"
    area: ClassVar[str] = "steps"
    state: str
    visit: int
    """How many times the state has been entered, including this time."""
    attempt: int
    """How many times the state has worked, including this time."""
    by: str | None = None
    """The edge that led here; null at the start."""


class Waiting(Event, frozen=True, kw_only=True):
    """The run waits for a person's answer, or for an artifact from outside."""

    type: ClassVar[str] = "waiting"
    area: ClassVar[str] = "steps"
    state: str
    question: str
    """The id of the question, which an answer or a delivery has to name."""
    text: str
    """The text of the question as the person sees it; for an artifact, the prompt."""
    choices: tuple[Choice, ...]
    """The choices of the question; empty if an artifact is wanted."""
    expires_at: float | None = None
    """The Unix time after which `otherwise` counts, or a delivery comes too late."""
    otherwise: str | None = None
    """The choice that counts after that time."""
    form: dict[str, Any] = NOTHING
    """The fields to fill in, in the notation of types."""
    edit: str | None = None
    """The artifact that the answer may replace with an edited version."""
    call: str | None = None
    """The key of the call in doubt, if the question is about one."""
    wanted: Wanted | None = None
    """The artifact to deliver, if the run waits for one."""
