"""Stored runs read back from a journal: events, state and definitions, checked on the way.

A run that can't be read raises RunUnreadable, which names the run, the place and a remedy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from loopkit.drive.stored_event import Stored
from loopkit.engine.changes import apply
from loopkit.engine.events import (
    Alerted,
    Decided,
    Emitted,
    Entered,
    Event,
    Intended,
    Kept,
    NewerEvent,
    UnknownEvent,
    Worked,
    read_event,
)
from loopkit.engine.state import RunState
from loopkit.journal.errors import RunDamaged, RunOfOtherVersion, UnknownDefinition
from loopkit.journal.journal import Journal
from loopkit.journal.records import Record
from loopkit.language import Machine
from loopkit.language.load import digest_of
from loopkit.text import one_line

T = TypeVar("T")


def read_record(run: str, record: Record) -> Stored:
    """The event of a record."""
    try:
        event = read_event(record.type, record.data)
    except NewerEvent as error:
        raise RunOfOtherVersion(run, f"record {record.seq} {error}") from error
    except UnknownEvent as error:
        cause = f"record {record.seq} (`{record.type}`) cannot be read: {error}"
        raise RunDamaged(run, cause) from error
    return Stored(record.seq, record.epoch, record.at, event)


def state_after(run: str, history: Iterable[Stored], *, is_counted: bool = True) -> RunState:
    """The state of a run after all its events; unless `is_counted`, without figures."""
    return ReadState(run, is_counted=is_counted).after(history)


class ReadState:
    """The state of a run whose events are read bit by bit."""

    def __init__(self, run: str, *, is_counted: bool = True) -> None:
        self._run = run
        self._state = RunState()
        self._before: Event | None = None
        if not is_counted:
            self._state.counted = None

    def after(self, new: Iterable[Stored]) -> RunState:
        """The state after the events that come next; raises RunDamaged."""
        state = self._state
        for each in new:
            try:
                _refuse_misplaced(state, self._before, each.event)
                apply(state, each.event)
                self._before = each.event
            except LookupError as error:
                cause = (
                    f"record {each.seq} (`{each.event.type}`) does not follow from those before it"
                )
                raise RunDamaged(self._run, cause) from error
        if state.run != self._run:
            named = f"its start names run `{state.run}`"
            raise RunDamaged(self._run, named if state.run else "nothing says how it started")
        return state


def _refuse_misplaced(state: RunState, before: Event | None, event: Event) -> None:
    """Raise LookupError if an event belongs to another state, or to work that is missing."""
    match event:
        case Intended() | Worked() | Kept():
            follows = event.state == state.state
        case Decided():
            follows = event.source == state.state and isinstance(before, Worked | Kept)
        case Entered():
            follows = event.by is None or isinstance(before, Decided | Alerted | Emitted)
        case _:
            follows = True
    if not follows:
        raise LookupError(event.type)


def refuse_strange(state: RunState, machine: Machine) -> None:
    """Raise RunDamaged if a run names states or agents that its machine does not have."""
    known = {*machine.states, *machine.agents}
    named = [*state.visits, *(task.declared_as for task in state.tasks.values())]
    strange = [name for name in named if name not in known]
    if strange:
        raise RunDamaged(state.run, f"it names `{strange[0]}`, which its machine does not have")


async def definition(journal: Journal, run: str, digest: str, read: Callable[[str], T]) -> T:
    """The definition or scenario of a run, made by `read` from the stored text."""
    try:
        text = await journal.definition(digest)
    except UnknownDefinition as error:
        raise RunDamaged(run, f"the definition {digest} is missing") from error
    if digest_of(text) != digest:
        raise RunDamaged(run, f"the definition {digest} has been changed")
    try:
        return read(text)
    except (ValueError, LookupError, TypeError) as error:
        cause = f"its definition {digest} cannot be read: {one_line(str(error), 200)}"
        raise RunOfOtherVersion(run, cause) from error
