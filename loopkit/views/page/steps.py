"""The steps of a run, folded from its events: each state that it entered, with its calls."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from loopkit.drive.stored_event import Stored
from loopkit.engine.events import (
    Cancelled,
    ChildEnded,
    ChildStarted,
    Decided,
    Entered,
    Failed,
    Finished,
    InDoubt,
    Intended,
    Replied,
    Usage,
    Waiting,
    Worked,
)
from loopkit.text import one_line
from loopkit.views.console import Tone, lines
from loopkit.views.progress import Progress

NOTED = frozenset(
    ("baselined", "held", "in_doubt", "settled", "kept", "alerted", "emitted", "suspended",
     "repaired", "resumed", "refused", "merged", "cancelled")
)  # fmt: skip
"""Events that are shown as a line of their own, as on the console."""
NOTE_WIDTH = 400
CallStatus = Literal["open", "answered", "failed", "in doubt"]


@dataclass(slots=True)
class Call:
    """One try of a call, and its result."""

    seq: int
    """The number of its first event, which is in the address of its texts."""
    began: float
    """Unix time."""
    intent: Intended
    status: CallStatus = "open"
    ended: float | None = None
    reply: Replied | None = None
    failure: Failed | None = None

    @property
    def usage(self) -> Usage:
        """Its usage; zero while it is unknown."""
        settled = self.reply or self.failure
        return settled.usage if settled is not None else Usage()

    @property
    def model(self) -> str:
        """The model that answered, else the one that was asked."""
        return (self.reply.model if self.reply else "") or self.intent.model

    def settle(self, event: Replied | Failed | InDoubt, at: float) -> None:
        """Set the result; the end of a call in doubt is unknown."""
        match event:
            case Replied():
                self.status, self.reply, self.ended = "answered", event, at
            case Failed():
                self.status, self.failure, self.ended = "failed", event, at
            case InDoubt():
                self.status, self.ended = "in doubt", None


@dataclass(frozen=True, slots=True)
class Note:
    """An event during a step, on one line."""

    at: float
    text: str
    tone: Tone = "plain"


@dataclass(slots=True)
class Step:
    """One visit to a state."""

    seq: int
    """The number of its first record."""
    state: str
    attempt: int
    began: float
    """Unix time."""
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

    @property
    def waits(self) -> str:
        """What it waits for, in words; empty if it does not wait."""
        if self.waiting is None:
            return ""
        whom = "a person" if self.waiting.wanted is None else "somebody outside"
        return f"waits for {whom}"

    @property
    def usage(self) -> Usage:
        """The usage of its calls and children, with the seconds of its work."""
        total = Usage(time_s=self.work.time_s if self.work else 0.0)
        for call in self.calls:
            total = total.plus(call.usage)
        for child in self.ended_children:
            total = total.plus(child.usage.replace(time_s=child.time_s))
        return total

    @property
    def seconds(self) -> float | None:
        """The duration of the step; None until it ends."""
        return None if self.ended is None else self.ended - self.began

    def take(self, stored: Stored) -> None:
        """Add an event that happens while the state is active."""
        match stored.event:
            case Intended() as intent:
                self.calls.append(Call(stored.seq, stored.at, intent))
            case Replied() | Failed() | InDoubt() as settled:
                calls = reversed(self.calls)
                if call := next((call for call in calls if call.intent.key == settled.key), None):
                    call.settle(settled, stored.at)
            case Worked() as work:
                self.work, self.ended, self.waiting = work, stored.at, None
            case Decided() as decision:
                self.decision, self.ended = decision, stored.at
            case Waiting() as waiting:
                self.waiting, self.question = waiting, waiting.question
            case Finished() | Cancelled():
                self.ended = stored.at
            case ChildStarted() as child:
                self.children.append(child)
            case ChildEnded() as child:
                self.ended_children.append(child)


@dataclass(slots=True)
class Steps:
    """All steps of a run, oldest first."""

    all: list[Step] = field(default_factory=list)
    before: list[Note] = field(default_factory=list)
    """The events before the first step."""

    def take(self, stored: Stored, progress: Progress) -> None:
        """Add the next event; `progress` is that before it."""
        event = stored.event
        if isinstance(event, Entered):
            self.all.append(Step(stored.seq, event.state, event.attempt, stored.at))
        elif self.all:
            self.all[-1].take(stored)
        if event.type in NOTED:
            notes = self.all[-1].notes if self.all else self.before
            notes += _notes(stored, progress, self.all[-1].state if self.all else "")
        if self.all:
            self.all[-1].last = stored.seq


class GrowingSteps:
    """The steps of a run that may continue."""

    def __init__(self) -> None:
        self.steps = Steps()
        self._progress = Progress()

    def take(self, history: Iterable[Stored]) -> None:
        """Add the next events."""
        for stored in history:
            self.steps.take(stored, self._progress)
            self._progress = self._progress.after(stored)


def steps_of(history: Iterable[Stored]) -> Steps:
    """The steps of a history."""
    growing = GrowingSteps()
    growing.take(history)
    return growing.steps


def _notes(stored: Stored, progress: Progress, state: str) -> Iterable[Note]:
    for line in lines(progress, stored):
        text = one_line(line.text, NOTE_WIDTH).removeprefix(f"{state} ").lstrip(": ")
        yield Note(stored.at, text, line.tone)
