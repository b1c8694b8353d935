"""Progress of a run: its place and what it waits for, folded from its events."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from loopkit.drive.active import Stored
from loopkit.engine.events import (
    ChildEnded,
    ChildStarted,
    Decided,
    Entered,
    Failed,
    Held,
    InDoubt,
    Intended,
    Replied,
    Resumed,
    Started,
    Suspended,
    Usage,
    Waiting,
    Worked,
)
from loopkit.text import one_line, plural
from loopkit.views.amounts import duration, money, until

SEPARATOR = " · "
AWAITED = 1
MODEL_WIDTH = 40
COMMAND_WIDTH = 30
WHOLE = 100_000


@dataclass(frozen=True, slots=True)
class Pending:
    """What one piece of work waits for: an answer, its next try, or a provider."""

    since: float
    """Unix time."""
    call: Intended | None = None
    """The last call; none where a provider is held before the first."""
    until: float | None = None
    """Unix time of the next try; none while an answer is awaited."""
    provider: str = ""
    """Whom it waits for, where the provider is left alone for a while."""


@dataclass(frozen=True, slots=True)
class Progress:
    """What a person who watches a run wants to know of it now."""

    run: str = ""
    seq: int = 0
    state: str = ""
    attempt: int = 0
    revision: int = 0
    """Of the revise edge that led here; 0 where none did."""
    max_revisions: int = 0
    calls: int = 0
    """Calls to agents, those in flight included."""
    usage: Usage = Usage()
    """What is settled."""
    pending: Mapping[str, Pending] = field(default_factory=dict)
    """By task, in the order in which they began."""
    answered: Usage | None = None
    """What the replies in this state cost, those of tools included."""
    asked: frozenset[str] = frozenset()
    """The tasks in this state that somebody was asked for."""
    faults: tuple[str, ...] = ()
    """Why tries in this state failed."""
    since: float = 0.0
    """Unix time of the last event."""
    asks_person: bool = False
    items: int = 0
    """For how many items children are begun in this state."""
    ended: int = 0
    """How many of these children have ended."""

    def after(self, stored: Stored) -> Progress:
        """The progress once an event is stored."""
        change = FOLDS.get(stored.event.type)
        now = replace(self, seq=stored.seq, since=stored.at)
        return change(now, stored.event) if change else now

    def call(self, key: str) -> Intended | None:
        """The call in flight that has this key."""
        return next((p.call for p in self.pending.values() if p.call and p.call.key == key), None)


def _started(now: Progress, event: Started) -> Progress:
    return replace(now, run=event.run)


def _entered(now: Progress, event: Entered) -> Progress:
    return replace(
        now, state=event.state, attempt=event.attempt, pending={}, answered=None, faults=(),
        asked=frozenset(), asks_person=False, items=0, ended=0,
    )  # fmt: skip


def _decided(now: Progress, event: Decided) -> Progress:
    told = event.revision
    return replace(
        now,
        revision=told.revision if told else 0,
        max_revisions=told.max_revisions if told else 0,
    )


def _held(now: Progress, event: Held) -> Progress:
    if event.instead:
        return now
    known = now.pending.get(event.task)
    waits = Pending(now.since, known.call if known else None, event.until, event.provider)
    return replace(now, pending={**now.pending, event.task: waits})


def _intended(now: Progress, event: Intended) -> Progress:
    return replace(
        now,
        calls=now.calls + event.asks_agent,
        asked=now.asked | {event.task},
        pending={**now.pending, event.task: Pending(now.since, event)},
    )


def _replied(now: Progress, event: Replied) -> Progress:
    answered = event.usage if now.answered is None else now.answered.plus(event.usage)
    return replace(_settled(now, event.key, event.usage), answered=answered)


def _failed(now: Progress, event: Failed) -> Progress:
    call = now.call(event.key)
    after = replace(
        _settled(now, event.key, event.usage), faults=(*now.faults, one_line(event.message, WHOLE))
    )
    if call is None or event.retry_at is None:
        return after
    again = Pending(now.since, call, event.retry_at)
    return replace(after, pending={**after.pending, call.task: again})


def _in_doubt(now: Progress, event: InDoubt) -> Progress:
    call = now.call(event.key)
    return _settled(now, event.key, call.reserved.as_held if call else Usage())


def _settled(now: Progress, key: str, usage: Usage) -> Progress:
    """One call less in flight, and what it cost."""
    call = now.call(key)
    pending = {task: p for task, p in now.pending.items() if p.call is None or p.call is not call}
    return replace(now, pending=pending, usage=now.usage.plus(usage))


def _worked(now: Progress, event: Worked) -> Progress:
    return replace(now, pending={}, usage=now.usage.plus(Usage(time_s=event.time_s)))


def _child_started(now: Progress, event: ChildStarted) -> Progress:
    return replace(now, items=event.of if event.key else 0)


def _child_ended(now: Progress, event: ChildEnded) -> Progress:
    calls, usage = now.calls + event.usage.agent_calls, now.usage.plus(event.usage)
    return replace(now, ended=now.ended + 1, calls=calls, usage=usage)


def _waiting(now: Progress, _: Waiting) -> Progress:
    return replace(now, asks_person=True)


def _stopped(now: Progress, _: Suspended) -> Progress:
    return replace(now, pending={})


def _resumed(now: Progress, _: Resumed) -> Progress:
    return replace(now, pending={}, faults=())


FOLDS: dict[str, Callable[[Progress, Any], Progress]] = {
    "started": _started,
    "entered": _entered,
    "decided": _decided,
    "held": _held,
    "intended": _intended,
    "replied": _replied,
    "failed": _failed,
    "in_doubt": _in_doubt,
    "child_started": _child_started,
    "child_ended": _child_ended,
    "worked": _worked,
    "waiting": _waiting,
    "suspended": _stopped,
    "resumed": _resumed,
}


@dataclass(frozen=True, slots=True)
class Part:
    """One piece of the status."""

    text: str
    rank: int
    """Where there is no room, the highest goes first."""
    tail: str = ""
    """What stays where the text is cut."""


def status(progress: Progress, now: float) -> tuple[Part, ...]:
    """The status of a run at a Unix time, in the order in which its parts are shown."""
    revision = f"revision {progress.revision} of {progress.max_revisions}"
    models = {p.call.model for p in progress.pending.values() if p.call}
    parts = (
        Part(progress.state or "starts", 0),
        Part(f"attempt {progress.attempt}" if progress.attempt else "", 4),
        Part(revision if progress.revision else "", 3),
        _awaited(progress, now),
        Part(one_line(models.pop(), MODEL_WIDTH) if len(models) == 1 else "", 6),
        Part(plural(progress.calls, "call") if progress.calls else "", 5),
        Part(", ".join(money(progress.usage)), 2),
    )
    return tuple(part for part in parts if part.text)


def fitted(parts: Sequence[Part], width: int, measure: Callable[[str], int]) -> str:
    """The parts on one line, without those for which it has no room.

    What is waited for stays, shortened at worst. `measure` gives the cells that
    a text takes on the terminal.
    """
    line = SEPARATOR.join(part.text + part.tail for part in parts)
    beyond = measure(line) - width
    if beyond <= 0 or len(parts) == 1:
        return line
    least = max(parts, key=lambda part: part.rank)
    if least.rank > AWAITED:
        return fitted([part for part in parts if part is not least], width, measure)
    short = _shortened(least.text, measure(least.text) - beyond, measure)
    return SEPARATOR.join((short if part is least else part.text) + part.tail for part in parts)


def _shortened(text: str, width: int, measure: Callable[[str], int]) -> str:
    while text and measure(text) >= width:
        text = text[:-1]
    return f"{text.rstrip()}…"


def _awaited(progress: Progress, now: float) -> Part:
    """Whom or what the run waits for, and how long already or how long still."""
    waits = list(progress.pending.values())
    if len(waits) == 1:
        return Part(_asked(waits[0]), AWAITED, _time(waits[0], now))
    if waits:
        oldest = _lasting(min(pending.since for pending in waits), now)
        places = ", ".join(_place(pending, now) for pending in waits)
        return Part(f"asks {len(waits)} judges{oldest}: {places}", AWAITED)
    if progress.asks_person:
        return Part("waits for a person", AWAITED)
    lasting = _lasting(progress.since, now)
    return Part("works" if lasting and progress.state else "", AWAITED, lasting)


def _asked(pending: Pending) -> str:
    call = pending.call
    if pending.provider or call is None:
        return f"waits for {one_line(pending.provider, MODEL_WIDTH)}"
    if call.role == "run":
        return f"runs {one_line(call.prompt, COMMAND_WIDTH)}"
    if call.role == "tool":
        return f"calls {call.agent}"
    if call.role == "outside":
        return f"waits for {call.agent}, from outside"
    which = f", fallback {call.fallback}" if call.fallback else ""
    task = f" to judge {call.asked_at}" if call.role == "judge" else ""
    return f"asks {call.agent}{which}{task}"


def _place(pending: Pending, now: float) -> str:
    """One of several that are asked at once."""
    name = pending.call.asked_at if pending.call else one_line(pending.provider, MODEL_WIDTH)
    return name if pending.until is None else f"{name} (again {until(pending.until - now)})"


def _time(pending: Pending, now: float) -> str:
    if pending.until is None:
        return _lasting(pending.since, now)
    comma = "," if pending.provider else ""
    return f"{comma} again {until(pending.until - now)}"


def _lasting(since: float, now: float) -> str:
    """` 12 s`; nothing in the first second."""
    return f" {duration(now - since)}" if now - since >= 1 else ""
