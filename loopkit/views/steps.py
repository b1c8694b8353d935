"""The steps of a run with their calls and versions, folded from its events: once, for everybody."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Self

from loopkit.drive.stored_runs import Stored
from loopkit.engine.events import (
    Cancelled,
    ChildEnded,
    ChildStarted,
    Decided,
    Entered,
    Event,
    Failed,
    Finished,
    Held,
    InDoubt,
    Intended,
    Replied,
    Reread,
    Resumed,
    Started,
    Suspended,
    Waiting,
    Worked,
)
from loopkit.engine.findings import Finding, Report
from loopkit.engine.payloads import Artifact, Feedback, PromptSize
from loopkit.engine.records import Usage
from loopkit.text import one_line, plural
from loopkit.views.review import phase_and_fallback, verdict_text

WHOLE = 100_000
"""The width of a text that is not cut."""
CallStatus = Literal["open", "answered", "failed", "in doubt"]
LineTone = Literal["plain", "good", "bad", "odd", "faint"]


class Text(NamedTuple):
    title: str
    text: str
    about: str = ""
    is_sent: bool = False
    """Whether it is a prompt."""


PARTS = {"system": "system", "turns": "earlier turns", "schemas": "schemas"}


def _size_text(size: PromptSize) -> str:
    parts = [f"{name} {getattr(size, key):,}" for key, name in PARTS.items() if getattr(size, key)]
    return "; ".join((f"{plural(size.total, 'character', ',')} in all that was sent", *parts))


@dataclass(slots=True)
class Call:
    number: int
    """Which call of its run it is, from 1."""
    seq: int
    """The number of its first event, which names it."""
    began: float
    """Unix time."""
    intent: Intended
    status: CallStatus = "open"
    ended: float | None = None
    reply: Replied | None = None
    failure: Failed | None = None

    @property
    def usage(self) -> Usage:
        settled = self.reply or self.failure
        return settled.usage if settled is not None else Usage()

    @property
    def model(self) -> str:
        """The model that answered, else the one that was asked."""
        return (self.reply.model if self.reply else "") or self.intent.model

    @property
    def texts(self) -> Iterator[Text]:
        """What was sent, and what came back."""
        intent, reply = self.intent, self.reply
        about = _size_text(intent.size) if intent.size.total else ""
        sent = "The results of its tools." if intent.goes_on else intent.prompt
        yield Text("Arguments" if intent.role == "tool" else "Prompt", sent, about, is_sent=True)
        if self.failure is not None:
            yield Text("Failure", self.failure.message, self.failure.error_class)
            if self.failure.stream:
                yield Text("Printed", self.failure.stream)
        if reply is None:
            return
        for tool in reply.tool_calls:
            how = "written as text" if tool.as_text else ""
            yield Text(f"Calls {tool.name}", tool.arguments, how)
        if reply.thoughts:
            yield Text("Thoughts", reply.thoughts)
        if reply.text or not reply.tool_calls:
            ended = ["cut off"] if reply.cut_off else []
            ended += [] if reply.exit_code is None else [f"exit {reply.exit_code}"]
            yield Text("Reply", reply.text, ", ".join(ended))
        if reply.stderr:
            yield Text("Standard error", reply.stderr)
        if reply.stream:
            yield Text("Printed", reply.stream)

    def settle(self, event: Replied | Failed | InDoubt, at: float) -> None:
        """Set the result; the end of a call in doubt is unknown."""
        match event:
            case Replied():
                self.status, self.reply, self.ended = "answered", event, at
            case Failed():
                self.status, self.failure, self.ended = "failed", event, at
            case InDoubt():
                self.status, self.ended = "in doubt", None


class Note(NamedTuple):
    """What else happened in a step, in words."""

    at: float
    text: str
    tone: LineTone = "plain"


class Pending(NamedTuple):
    """What a task waits for: an answer, its next try, or a provider."""

    since: float
    """Unix time."""
    call: Intended | None = None
    """The last call; None if the provider is paused before the first."""
    until: float | None = None
    """Unix time of the next try; None while a call is in flight."""
    provider: str = ""
    """The one that is paused, if any."""


@dataclass(slots=True)
class Step:
    """One visit of a state."""

    seq: int = 0
    """The number of its first record."""
    state: str = ""
    visit: int = 0
    attempt: int = 0
    began: float = 0.0
    revision: Feedback | None = None
    """That of the revise edge that led here."""
    calls_before: int = 0
    """The calls of the run before it."""
    last: int = 0
    """The number of its last record."""
    ended: float | None = None
    calls: list[Call] = field(default_factory=list)
    work: Worked | None = None
    decision: Decided | None = None
    waiting: Waiting | None = None
    question: str = ""
    """The id of its last question."""
    notes: list[Note] = field(default_factory=list)
    children: list[ChildStarted] = field(default_factory=list)
    ended_children: list[ChildEnded] = field(default_factory=list)
    pending: dict[str, Pending] = field(default_factory=dict)
    """By task, in the order of their last calls."""
    asked: set[str] = field(default_factory=set)
    """The tasks for which a call was made."""
    answered: Usage | None = None
    """The usage of all replies, including those of tools."""
    faults: list[str] = field(default_factory=list)
    """The errors of failed tries since the last resume."""

    @property
    def waits(self) -> str:
        if self.waiting is None:
            return ""
        whom = "a person" if self.waiting.wanted is None else "somebody outside"
        return f"waits for {whom}"

    @property
    def usage(self) -> Usage:
        total = Usage(time_s=self.work.time_s if self.work else 0.0)
        for call in self.calls:
            total = total.plus(call.usage)
        for child in self.ended_children:
            total = total.plus(child.usage.replace(time_s=child.time_s))
        return total

    @property
    def seconds(self) -> float | None:
        return None if self.ended is None else self.ended - self.began

    @property
    def items(self) -> int:
        """For how many items it begins children."""
        return self.children[-1].of if self.children and self.children[-1].key else 0

    def call(self, key: str) -> Call | None:
        """The last call of this key."""
        return next((call for call in reversed(self.calls) if call.intent.key == key), None)

    def take(self, stored: Stored) -> Usage:
        """Note the next event; what it adds to what the run has spent."""
        at = stored.at
        match stored.event:
            case Intended() as intent:
                number = self.calls_before + len(self.calls) + 1
                self.calls.append(Call(number, stored.seq, at, intent))
                self.asked.add(intent.task)
                self.pending[intent.task] = Pending(at, intent)
            case Replied() | Failed() | InDoubt() as settled:
                return self._settle(settled, at)
            case Held(instead="") as held:
                known = self.pending.get(held.task)
                waits = Pending(at, known.call if known else None, held.until, held.provider)
                self.pending[held.task] = waits
            case Suspended() | Resumed() as event:
                self.pending.clear()
                if isinstance(event, Resumed):
                    self.faults.clear()
            case event:
                return self._go_on(event, at)
        return Usage()

    def _go_on(self, event: Event, at: float) -> Usage:
        match event:
            case Worked() as work:
                self.work, self.ended, self.waiting = work, at, None
                self.pending.clear()
                return Usage(time_s=work.time_s)
            case Decided() as decision:
                self.decision, self.ended = decision, at
            case Waiting() as waiting:
                self.waiting, self.question = waiting, waiting.question
            case Finished() | Cancelled():
                self.ended = at
            case ChildStarted() as child:
                self.children.append(child)
            case ChildEnded() as child:
                self.ended_children.append(child)
                return child.usage
        return Usage()

    def _settle(self, event: Replied | Failed | InDoubt, at: float) -> Usage:
        if isinstance(event, Failed):
            self.faults.append(one_line(event.message, WHOLE))
        if isinstance(event, Replied):
            self.answered = event.usage.plus(self.answered or Usage())
        call = self.call(event.key)
        if call is None:
            return Usage() if isinstance(event, InDoubt) else event.usage
        call.settle(event, at)
        if (known := self.pending.get(call.intent.task)) and known.call is call.intent:
            del self.pending[call.intent.task]
        if isinstance(event, Failed) and event.retry_at is not None:
            self.pending[call.intent.task] = Pending(at, call.intent, event.retry_at)
        return event.charge(call.intent.reserved) if isinstance(event, InDoubt) else event.usage


@dataclass(slots=True)
class KeptVersion:
    """One version of an artifact, and the last report on it."""

    number: int
    artifact: Artifact
    report: Report | None = None

    @property
    def title(self) -> str:
        """`plan 2, attempt 2 by draft: fail, 1 blocking finding`."""
        artifact = self.artifact
        how = phase_and_fallback(artifact.made) + (", edited" if artifact.edited else "")
        verdict = verdict_text(self.report) if self.report is not None else "not judged"
        return one_line(f"{artifact.name} {self.number}, {artifact.by}{how}: {verdict}")

    @property
    def findings(self) -> tuple[Finding, ...]:
        return self.report.findings if self.report is not None else ()


@dataclass(slots=True)
class Steps:
    """All steps of a run, oldest first, with all versions; they grow with its events."""

    is_kept: bool = True
    """Whether more is kept than the present step."""
    noting: Callable[[Steps, Stored], Iterable[Note]] = lambda *_: ()
    """What is noted about an event, given the steps before it."""
    all: list[Step] = field(default_factory=list)
    before: Step = field(default_factory=Step)
    """What happened before the first step."""
    step: Step = field(init=False)
    """The present one, or `before`."""
    versions: dict[str, list[KeptVersion]] = field(default_factory=dict)
    """By artifact, oldest first."""
    run: str = ""
    machine: str = ""
    born: float = 0.0
    """Unix time of the first event."""
    seq: int = 0
    since: float = 0.0
    """Unix time of the last event."""
    calls: int = 0
    """Those of agents, also in flight, and those of children that have ended."""
    usage: Usage = Usage()
    """What it and children that have ended have spent."""

    def __post_init__(self) -> None:
        self.step = self.before

    def after(self, news: Iterable[Stored]) -> Self:
        """These steps, to which the next events are added."""
        for stored in news:
            self.take(stored)
        return self

    def take(self, stored: Stored) -> None:
        event, notes = stored.event, [*self.noting(self, stored)]
        self.seq, self.since = stored.seq, stored.at
        match event:
            case Started():
                self.run, self.machine, self.born = event.run, event.machine, stored.at
            case Entered():
                decision = self.step.decision
                self.step = Step(
                    stored.seq, event.state, event.visit, event.attempt, stored.at,
                    decision.revision if decision is not None else None,
                    self.step.calls_before + len(self.step.calls),
                )  # fmt: skip
                if self.is_kept:
                    self.all.append(self.step)
            case Intended():
                self.calls += event.asks_agent
            case ChildEnded():
                self.calls += event.usage.agent_calls
        self.usage = self.usage.plus(self.step.take(stored))
        self.step.notes += notes
        self.step.last = stored.seq
        if self.is_kept:
            self._keep(event)

    def _keep(self, event: Event) -> None:
        left = (event.artifact,) if isinstance(event, Worked | Reread) else ()
        for artifact in event.artifacts if isinstance(event, Started) else left:
            if artifact is not None:
                versions = self.versions.setdefault(artifact.name, [])
                versions.append(KeptVersion(len(versions) + 1, artifact))
        if isinstance(event, Worked) and (report := event.report) is not None:
            # A report may be about an earlier version than the last.
            known = reversed(self.versions.get(report.artifact, ()))
            about = (one for one in known if report.version in (0, one.number))
            if (judged := next(about, None)) is not None:
                judged.report = report

    def usage_by_state(self) -> dict[str, Usage]:
        """What each state has spent, in the order in which they began."""
        spent: dict[str, Usage] = {}
        for step in self.all:
            spent[step.state] = spent.get(step.state, Usage()).plus(step.usage)
        return spent

    def every_call(self) -> Iterator[tuple[Step, Call]]:
        for step in self.all:
            for call in step.calls:
                yield step, call
