"""Progress of a run: its state and what it waits for, folded from its events."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from loopkit.drive.stored_runs import Stored
from loopkit.engine.events import (
    ChildEnded,
    Decided,
    Entered,
    Failed,
    Held,
    InDoubt,
    Intended,
    Replied,
)
from loopkit.engine.records import Usage
from loopkit.text import one_line, plural
from loopkit.views.amounts import duration, money, until

SEPARATOR = " · "
WAIT_RANK = 1
"""The rank of the part that says what the run waits for."""
MODEL_WIDTH = 40
COMMAND_WIDTH = 30
WHOLE = 100_000
"""The width of a text that is not cut."""


@dataclass(frozen=True, slots=True)
class Pending:
    since: float
    """Unix time."""
    call: Intended | None = None
    """The last call; None if the provider is paused before the first."""
    until: float | None = None
    """Unix time of the next try; None while a call is in flight."""
    provider: str = ""
    """The one that is paused, if any."""


@dataclass(frozen=True, slots=True)
class Progress:
    run: str = ""
    seq: int = 0
    state: str = ""
    attempt: int = 0
    revision: int = 0
    """The revision of the revise edge that led here; 0 if none did."""
    max_revisions: int = 0
    calls: int = 0
    """Calls to agents, including those in flight."""
    usage: Usage = Usage()
    pending: Mapping[str, Pending] = field(default_factory=dict)
    """By task, in the order of their first calls."""
    answered: Usage | None = None
    """The usage of the replies in this state, including those of tools."""
    asked: frozenset[str] = frozenset()
    """The tasks of this state for which a call was made."""
    faults: tuple[str, ...] = ()
    """The errors of failed tries in this state."""
    since: float = 0.0
    """Unix time of the last event."""
    asks_person: bool = False
    items: int = 0
    """The number of items for which this state begins children."""
    ended: int = 0

    def after(self, stored: Stored) -> Progress:
        change = FOLDS.get(stored.event.type)
        now = replace(self, seq=stored.seq, since=stored.at)
        return change(now, stored.event) if change else now

    def call(self, key: str) -> Intended | None:
        return next((p.call for p in self.pending.values() if p.call and p.call.key == key), None)


def _after_entered(now: Progress, event: Entered) -> Progress:
    return replace(
        now, state=event.state, attempt=event.attempt, pending={}, answered=None, faults=(),
        asked=frozenset(), asks_person=False, items=0, ended=0,
    )  # fmt: skip


def _after_decided(now: Progress, event: Decided) -> Progress:
    back = event.revision
    revision, most = (back.revision, back.max_revisions) if back else (0, 0)
    return replace(now, revision=revision, max_revisions=most)


def _after_held(now: Progress, event: Held) -> Progress:
    if event.instead:
        return now
    known = now.pending.get(event.task)
    waits = Pending(now.since, known.call if known else None, event.until, event.provider)
    return replace(now, pending={**now.pending, event.task: waits})


def _after_intended(now: Progress, event: Intended) -> Progress:
    return replace(
        now,
        calls=now.calls + event.asks_agent,
        asked=now.asked | {event.task},
        pending={**now.pending, event.task: Pending(now.since, event)},
    )


def _after_replied(now: Progress, event: Replied) -> Progress:
    answered = event.usage if now.answered is None else now.answered.plus(event.usage)
    return replace(_without_call(now, event.key, event.usage), answered=answered)


def _after_failed(now: Progress, event: Failed) -> Progress:
    call = now.call(event.key)
    after = replace(
        _without_call(now, event.key, event.usage),
        faults=(*now.faults, one_line(event.message, WHOLE)),
    )
    if call is None or event.retry_at is None:
        return after
    again = Pending(now.since, call, event.retry_at)
    return replace(after, pending={**after.pending, call.task: again})


def _after_in_doubt(now: Progress, event: InDoubt) -> Progress:
    call = now.call(event.key)
    return _without_call(now, event.key, event.charge(call.reserved) if call else Usage())


def _without_call(now: Progress, key: str, usage: Usage) -> Progress:
    call = now.call(key)
    pending = {task: p for task, p in now.pending.items() if p.call is None or p.call is not call}
    return replace(now, pending=pending, usage=now.usage.plus(usage))


def _after_child_ended(now: Progress, event: ChildEnded) -> Progress:
    calls = now.calls + event.usage.agent_calls
    usage = now.usage.plus(event.usage)
    return replace(now, ended=now.ended + 1, calls=calls, usage=usage)


FOLDS: dict[str, Callable[[Progress, Any], Progress]] = {
    "started": lambda now, event: replace(now, run=event.run),
    "entered": _after_entered,
    "decided": _after_decided,
    "held": _after_held,
    "intended": _after_intended,
    "replied": _after_replied,
    "failed": _after_failed,
    "in_doubt": _after_in_doubt,
    "child_started": lambda now, event: replace(now, items=event.of if event.key else 0),
    "child_ended": _after_child_ended,
    "worked": lambda now, event: replace(
        now, pending={}, usage=now.usage.plus(Usage(time_s=event.time_s))
    ),
    "waiting": lambda now, _: replace(now, asks_person=True),
    "suspended": lambda now, _: replace(now, pending={}),
    "resumed": lambda now, _: replace(now, pending={}, faults=()),
}


class Part(NamedTuple):
    text: str
    rank: int
    """If space runs out, the part with the highest rank is dropped first."""


def status(progress: Progress, now: float) -> tuple[Part, ...]:
    revision = f"revision {progress.revision} of {progress.max_revisions}"
    models = {p.call.model for p in progress.pending.values() if p.call}
    parts = (
        Part(progress.state or "starts", 0),
        Part(f"attempt {progress.attempt}" if progress.attempt else "", 4),
        Part(revision if progress.revision else "", 3),
        _wait_part(progress, now),
        Part(one_line(models.pop(), MODEL_WIDTH) if len(models) == 1 else "", 6),
        Part(plural(progress.calls, "call") if progress.calls else "", 5),
        Part(", ".join(money(progress.usage)), 2),
    )
    return tuple(part for part in parts if part.text)


def fit(parts: Sequence[Part], width: int, measure: Callable[[str], int]) -> str:
    """The parts on one line of `width` cells, without those that do not fit.

    The state and what the run waits for are never dropped; `measure` gives the number of cells that
    a text takes on the terminal.
    """
    line = SEPARATOR.join(part.text for part in parts)
    least = max(parts, key=lambda part: part.rank)
    if measure(line) <= width or least.rank <= WAIT_RANK:
        return line
    return fit([part for part in parts if part is not least], width, measure)


def _wait_part(progress: Progress, now: float) -> Part:
    waits = list(progress.pending.values())
    if len(waits) == 1:
        [one] = waits
        lasting = _lasting(one.since, now)
        if one.until is not None:
            lasting = f"{',' if one.provider else ''} again {until(one.until - now)}"
        return Part(f"{_wait_text(one)}{lasting}", WAIT_RANK)
    if waits:
        oldest = _lasting(min(pending.since for pending in waits), now)
        places = ", ".join(_judge_place(pending, now) for pending in waits)
        return Part(f"asks {len(waits)} judges{oldest}: {places}", WAIT_RANK)
    if progress.asks_person:
        return Part("waits for a person", WAIT_RANK)
    lasting = _lasting(progress.since, now)
    return Part(f"works{lasting}" if lasting and progress.state else "", WAIT_RANK)


def _wait_text(pending: Pending) -> str:
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


def _judge_place(pending: Pending, now: float) -> str:
    name = pending.call.asked_at if pending.call else one_line(pending.provider, MODEL_WIDTH)
    return name if pending.until is None else f"{name} (again {until(pending.until - now)})"


def _lasting(since: float, now: float) -> str:
    """` 12 s`; empty in the first second."""
    return f" {duration(now - since)}" if now - since >= 1 else ""
