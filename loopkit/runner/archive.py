"""What a journal keeps of a run, read back: its events, its state and its definitions.

Whatever is wrong with it raises RunUnreadable, which names the run, the place and a remedy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from loopkit.definition import Machine
from loopkit.events import NewerEvent, UnknownEvent, read_event
from loopkit.journal import Journal, Record, RunDamaged, RunOfOtherVersion, UnknownDefinition
from loopkit.load import digest_of
from loopkit.runner.active import Stored
from loopkit.runstate import RunState, fold
from loopkit.text import one_line

T = TypeVar("T")


def stored_event(run: str, record: Record) -> Stored:
    """The event of a record."""
    try:
        event = read_event(record.type, record.data)
    except NewerEvent as error:
        raise RunOfOtherVersion(run, f"record {record.seq} {error}") from error
    except UnknownEvent as error:
        cause = f"record {record.seq} (`{record.type}`) cannot be read: {error}"
        raise RunDamaged(run, cause) from error
    return Stored(record.seq, record.epoch, record.at, event)


def state_after(run: str, history: Sequence[Stored]) -> RunState:
    """The state of a run after all its events."""
    state = RunState()
    for each in history:
        try:
            state = fold([each.event], state)
        except LookupError as error:
            cause = f"record {each.seq} (`{each.event.type}`) does not follow from those before it"
            raise RunDamaged(run, cause) from error
    if state.run != run:
        said = f"its start names run `{state.run}`" if state.run else "nothing says how it started"
        raise RunDamaged(run, said)
    return state


def refuse_strange(state: RunState, machine: Machine) -> None:
    """Raise RunDamaged where a run has been in states that its machine does not have."""
    strange = [name for name in (*state.visits, *state.facts) if name not in machine.states]
    if strange:
        raise RunDamaged(state.run, f"it was in `{strange[0]}`, which its machine does not have")


async def definition(journal: Journal, run: str, digest: str, read: Callable[[str], T]) -> T:
    """What a run was started with, as `read` makes it of the stored text."""
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
