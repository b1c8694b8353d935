"""The events of a run: frozen, versioned records, which everything else is folded from.

A macrostep is one atomic append: `worked`, `decided`, `entered` (and then
`waiting` or `finished`). Calls are `intended` before they are sent and
`replied` or `failed` after.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from loopkit.findings import ErrorClass, Report

EVENT_VERSION = 1
Role = Literal["author", "judge", "run"]
Policy = Literal["retry", "ask", "fail"]
Outcome = Literal["done", "transient", "content", "fatal", "limit"]


class Usage(BaseModel):
    """What calls cost: counts, tokens in and out together, USD, seconds of work."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    agent_calls: int = 0
    tool_calls: int = 0
    tokens: int = 0
    cost_usd: float | None = 0.0
    """None is unknown, never free."""
    time_s: float = 0.0

    def plus(self, other: Usage) -> Usage:
        unknown = self.cost_usd is None or other.cost_usd is None
        return Usage(
            agent_calls=self.agent_calls + other.agent_calls,
            tool_calls=self.tool_calls + other.tool_calls,
            tokens=self.tokens + other.tokens,
            cost_usd=None if unknown else (self.cost_usd or 0.0) + (other.cost_usd or 0.0),
            time_s=self.time_s + other.time_s,
        )


class Artifact(BaseModel):
    """One version of an artifact."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    author: str
    """The state that wrote it."""
    attempt: int
    text: str
    data: Any = None
    is_data: bool = False
    fields: dict[str, Any] = {}
    fault: str = ""
    """Why this is no proper artifact: missing, empty, cut off, not JSON, breaks its schema."""
    fault_code: str = ""
    infeasible: bool = False
    fallback: bool = False
    edited: bool = False
    """A person has changed it since the author wrote it."""


class Feedback(BaseModel):
    """What a decision tells a state that has to work again."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    to: str
    text: str
    revision: int
    max_revisions: int


class HumanAnswer(BaseModel):
    """What a person decided."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    choice: str
    comment: str = ""
    form: dict[str, Any] = {}
    edit: str | None = None
    """The edited artifact, where the state offers `edit:`."""
    by: str = "person"
    """`person`, `script`, or `timeout`."""


class Event(BaseModel):
    """What every record of a run has in common."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    type: str
    """What happened; it says which other keys there are."""
    version: int = EVENT_VERSION
    """The version of the format; keys may be added to one without a new number."""


class Started(Event):
    """A run begins; its input is complete, defaults included."""

    type: Literal["started"] = "started"
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


class Claimed(Event):
    """A process took the run over; everything it writes carries the new epoch."""

    type: Literal["claimed"] = "claimed"
    pid: int = 0
    host: str = ""


class Intended(Event):
    """A call is about to be made."""

    type: Literal["intended"] = "intended"
    key: str
    """What names this one call in the run; its reply or failure has the same."""
    task: str
    """What all tries and re-asks of this piece of work have in common."""
    state: str
    visit: int
    """How often the state had been entered."""
    role: Role
    """Whether an author, a judge or a command is asked."""
    agent: str
    """The agent's name, or the state's for a command."""
    place: str
    """Where the agent is asked: the state's name, or the validator's for a judge."""
    prompt: str
    """The message that is sent last."""
    model: str = ""
    """The model that is asked; empty for a program."""
    deadline_s: float
    reserved: Usage
    """What the call may cost at most; charged until it is settled."""


class Held(Event):
    """A call waits, because its provider has failed again and again."""

    type: Literal["held"] = "held"
    task: str
    state: str
    provider: str
    until: float
    """Unix time at which it is asked again."""
    reason: str


class Replied(Event):
    """The answer to an intended call."""

    type: Literal["replied"] = "replied"
    key: str
    text: str
    cut_off: bool = False
    """The answer ends at the limit of its length."""
    exit_code: int | None = None
    stderr: str = ""
    session: str | None = None
    """The session id that an external agent named."""
    model: str = ""
    """The model that answered, as its provider names it."""
    artifact_text: str | None = None
    """The content of the file that the attempt wrote, where the output is a file."""
    artifact_fault: str = ""
    """Why there is no such content."""
    usage: Usage
    """What the call cost."""


class Failed(Event):
    """An intended call ended without an answer."""

    type: Literal["failed"] = "failed"
    key: str
    error_class: ErrorClass
    """Whether another try, another answer or a person can help."""
    message: str
    retry_at: float | None = None
    """Unix time before which the call is not tried again."""
    usage: Usage
    """What the call is charged at nevertheless."""


class InDoubt(Event):
    """A call whose process died: it may have been made. It stays charged at its reservation."""

    type: Literal["in_doubt"] = "in_doubt"
    key: str
    policy: Policy


class Settled(Event):
    """A person decided what becomes of a call in doubt."""

    type: Literal["settled"] = "settled"
    key: str
    choice: Literal["retry", "fail"]


class Worked(Event):
    """A state's work is complete."""

    type: Literal["worked"] = "worked"
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


class Decided(Event):
    """Which edge was taken, why, and what it costs."""

    type: Literal["decided"] = "decided"
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


class Emitted(Event):
    """An event that the author of the machine asked for with `emit:`."""

    type: Literal["emitted"] = "emitted"
    name: str
    state: str
    attempt: int
    findings: tuple[dict[str, Any], ...] = ()


class Entered(Event):
    """A state becomes active."""

    type: Literal["entered"] = "entered"
    state: str
    visit: int
    """How often the state has been entered, this time included."""
    attempt: int
    """How often the state has worked, this time included."""
    by: str | None = None
    """The edge that led here; none at the start."""


class Choice(BaseModel):
    """One way to answer a question."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    name: str
    closed: str = ""
    """Why it can't be chosen now; empty when it can."""
    takes_comment: bool = False
    """The feedback uses a comment."""
    needs_comment: bool = False
    """It can't do without one."""


class Waiting(Event):
    """The run waits for a person."""

    type: Literal["waiting"] = "waiting"
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


class Suspended(Event):
    """The run stopped where it was; `resume` goes on."""

    type: Literal["suspended"] = "suspended"
    state: str
    reason: Literal["limit", "transient", "content", "fatal", "interrupted"]
    """Why the run stopped: a limit, a class of error, or Ctrl-C."""
    message: str
    remedy: str = ""
    resume_at: float | None = None
    """Unix time from which it makes sense to go on."""


class Resumed(Event):
    """Somebody asked the run to go on."""

    type: Literal["resumed"] = "resumed"
    limits: dict[str, Any] = {}
    """Limits that were raised, by name."""


class Refused(Event):
    """A message of the inbox that could not be followed."""

    type: Literal["refused"] = "refused"
    message_id: str
    reason: str


class Finished(Event):
    """The run is over."""

    type: Literal["finished"] = "finished"
    outcome: str
    """The name of the final state."""
    success: bool
    """Whether that is a success."""
    result: dict[str, Any] = {}
    """The artifacts that the run ends with, by name."""
    picked: dict[str, Any] = {}
    """For each artifact of the result: author, attempt, whether it is a fallback."""
    absent: tuple[str, ...] = ()
    """Artifacts of the result that this path never made."""


class Cancelled(Event):
    """Somebody ended the run."""

    type: Literal["cancelled"] = "cancelled"
    reason: str = ""


EVENTS: dict[str, type[Event]] = {
    noun.model_fields["type"].default: noun
    for noun in (
        Started, Claimed, Held, Intended, Replied, Failed, InDoubt, Settled, Worked, Decided,
        Emitted, Entered, Waiting, Suspended, Resumed, Refused, Finished, Cancelled,
    )
}  # fmt: skip


class UnknownEvent(Exception):
    """A record that this version of loopkit cannot read."""


def read_event(event_type: str, data: str) -> Event:
    """The event behind a stored record; raises UnknownEvent."""
    noun = EVENTS.get(event_type)
    if noun is None:
        raise UnknownEvent(f"the journal holds a record of unknown type `{event_type}`")
    try:
        return noun.model_validate_json(data)
    except ValueError as error:
        raise UnknownEvent(f"a `{event_type}` record of the journal is damaged: {error}") from error


def write_event(event: Event) -> str:
    """The stored form of an event: JSON without the type, which is stored beside it."""
    return event.model_dump_json(exclude={"type"})
