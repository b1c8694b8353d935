"""Stored runs: events, state and definitions, read from a journal and checked on the way.

A run that can't be read raises RunUnreadable, which names the run, the place and a remedy.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from itertools import groupby, zip_longest
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, TypeVar

from loopkit.agents.port import NotRunnable
from loopkit.document.problems import ProblemsFound
from loopkit.engine.changes import apply
from loopkit.engine.events import (
    Event,
    EventOfOtherVersion,
    UnknownEvent,
    Waiting,
    read_event,
)
from loopkit.engine.payloads import Change
from loopkit.engine.records import Usage
from loopkit.engine.state import Child, RunState
from loopkit.journal.errors import (
    RunDamaged,
    RunOfOtherVersion,
    UnknownDefinition,
    UnknownRun,
)
from loopkit.journal.journal import Journal
from loopkit.journal.records import Record
from loopkit.language.inclusion import digest_of
from loopkit.language.load import file_of_definition, load, load_resolved
from loopkit.language.machine import Machine
from loopkit.scenario.cases import Scenario, read_resolved
from loopkit.text import one_line
from loopkit.text.json_text import text_or_json
from loopkit.text.run_ids import is_of_batch, place_of

MOST_NAMED = 5
T = TypeVar("T")


class Stored(NamedTuple):
    seq: int
    epoch: int
    at: float
    """Unix time."""
    event: Event


class OpenQuestion(NamedTuple):
    place: str
    """The place in the family of the run that asks; empty for the run that was queried."""
    state: RunState
    question: Waiting


class StoredRuns:
    def __init__(self, journal: Journal) -> None:
        self.journal = journal

    async def run_named(self, beginning: str) -> str:
        """The id of the one run that begins like this; raises UnknownRun, or NotRunnable.

        The whole id of a batch's run begins no other one: that of line 1 would begin that of 10.
        """
        if await self.journal.has(beginning):
            return beginning
        found = await self.journal.find_runs(beginning, limit=MOST_NAMED)
        if not found or is_of_batch(beginning):
            raise UnknownRun(beginning)
        if len(found) > 1:
            more = ", …" if len(found) == MOST_NAMED else ""
            raise NotRunnable(f"`{beginning}` begins several runs: {', '.join(found)}{more}")
        return found[0]

    async def events(self, run: str, after: int = 0) -> list[Stored]:
        """The events of a run behind `after`, oldest first."""
        return [read_stored(run, record) for record in await self.journal.read(run, after)]

    async def state_of(self, run: str) -> RunState:
        return state_after(run, await self.events(run))

    async def machine_of(self, state: RunState) -> Machine:
        return await definition(self.journal, state.run, state.definition, load_resolved)

    async def machine_name_of(self, state: RunState) -> Path:
        return await definition(self.journal, state.run, state.definition, file_of_definition)

    async def machine_file_of(self, state: RunState) -> Path | None:
        """The file that the run's machine was read from, found from here or the project folder."""
        named = await self.machine_name_of(state)
        paths = (Path() / named, Path(state.folder) / named)
        return next((path for path in paths if path.is_file()), None)

    async def machine_file_if_changed(self, run: str) -> Path | None:
        state = await self.state_of(run)
        stored = await definition(self.journal, run, state.definition, str)
        return file_if_changed(stored, await self.machine_file_of(state))

    async def scenario_of(self, state: RunState) -> Scenario | None:
        if state.script is None:
            return None
        return await definition(self.journal, state.run, state.script, read_resolved)

    async def is_over(self, run: str) -> bool:
        return (await self.state_of(run)).is_over

    async def usage_of(self, state: RunState) -> Usage:
        """The usage of a run and of its open children, which it does not count yet."""
        total = Usage(time_s=state.usage.time_s)
        async for _, each in self._family(state):
            # Which part of the time of children counts is known only at their end.
            total = total.plus(each.usage.replace(time_s=0.0))
        return total

    async def questions(
        self, run: str, *, is_for_artifact: bool | None = None
    ) -> list[OpenQuestion]:
        """The open questions of a run and its children, in the order of their lists.

        `is_for_artifact` selects the requests for artifacts, or else the questions to a person. If
        there are none of that kind, those of the other kind are returned.
        """
        has_begun = await self.journal.has(run)
        every = await self.questions_of(await self.state_of(run)) if has_begun else []
        if is_for_artifact is None:
            return every
        chosen = [one for one in every if (one.question.wanted is not None) == is_for_artifact]
        return chosen or every

    async def questions_of(self, state: RunState) -> list[OpenQuestion]:
        return [
            OpenQuestion(place, each, each.question)
            async for place, each in self._family(state)
            if each.status == "waiting" and each.question is not None
        ]

    async def commitment(self, run: str) -> Usage:
        """The committed usage of a run and all its children; zero if the run has not begun."""
        if not await self.journal.has(run):
            return Usage()
        return await self.commitment_of(await self.state_of(run))

    async def commitment_of(self, state: RunState) -> Usage:
        total = Usage()
        async for _, each in self._family(state):
            total = total.plus(each.committed)
        return total

    async def _family(
        self, state: RunState, place: str = ""
    ) -> AsyncIterator[tuple[str, RunState]]:
        """A run and its stored open children, and theirs, in order, each with its place."""
        yield place, state
        for begun in (child.started for child in open_children(state)):
            if await self.journal.has(begun.child):
                at = place_of(begun.state, begun.key, place)
                async for inner in self._family(await self.state_of(begun.child), at):
                    yield inner

    async def lost_time(self, state: RunState) -> float:
        """The seconds of work of open children that a process did not count because of a kill."""
        inner = [each.run async for _, each in self._family(state) if each is not state]
        spans = [span for run in inner for span in spans_of(await self.events(run))]
        return seconds_in(spans, last_counted(await self.events(state.run))) if spans else 0.0


def open_children(state: RunState) -> list[Child]:
    """The children of a run that were begun and, as far as it knows, have not ended, in order."""
    begun = (child for children in state.children.values() for child in children.values())
    open_ones = [child for child in begun if child.ended is None]
    return sorted(open_ones, key=lambda child: child.started.index)


def read_stored(run: str, record: Record) -> Stored:
    try:
        event = read_event(record.type, record.data)
    except EventOfOtherVersion as error:
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
        if not is_counted:
            self._state.counted = None

    def after(self, new: Iterable[Stored]) -> RunState:
        """The state after the events that come next; raises RunDamaged."""
        state = self._state
        for each in new:
            try:
                apply(state, each.event)
            except LookupError as error:
                cause = "does not follow from those before it"
                named = f"record {each.seq} (`{each.event.type}`)"
                raise RunDamaged(self._run, f"{named} {cause}") from error
        if state.run != self._run:
            named = f"its start names run `{state.run}`"
            raise RunDamaged(self._run, named if state.run else "nothing says how it started")
        return state


async def definition(journal: Journal, run: str, digest: str, read: Callable[[str], T]) -> T:
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


def file_if_changed(resolved: str, path: Path | None) -> Path | None:
    """The machine file of a definition, if it is there and is unreadable or says something else."""
    if path is None:
        return None
    try:
        loaded = load(path)
    except ProblemsFound:
        return path
    files = [json.loads(text)["files"].values() for text in (resolved, loaded.resolved)]
    if sorted(files[0]) == sorted(files[1]):
        # The definition may have been changed for the run alone, and not in the file.
        return None
    return path if differences(load_resolved(resolved), loaded.machine) else None


def note_of_change(file: Path) -> str:
    return f"{file} has changed since this run read it, and the run keeps what it has"


Span: TypeAlias = tuple[float, float]
"""When something began and ended, in Unix seconds."""


def spans_of(history: Iterable[Stored]) -> Iterator[Span]:
    """When each process that drove a run wrote its first and its last record."""
    for _, group in groupby(history, attrgetter("epoch")):
        at = [stored.at for stored in group]
        yield min(at), max(at)


def last_counted(history: Iterable[Stored]) -> float:
    """When a run last recorded time of its own; 0 if it never did."""
    counted = (s.at for s in history if getattr(s.event, "time_s", 0.0) > 0)
    return max(counted, default=0.0)


def seconds_in(spans: Sequence[Span], since: float) -> float:
    """The seconds that lie in any of these spans, from `since` on."""
    seconds, counted_to = 0.0, since
    for began, ended in sorted(spans):
        if ended > counted_to:
            seconds += ended - max(began, counted_to)
            counted_to = ended
    return seconds


WIDTH = 120
_BEFORE = 20


def differences(old: Machine, new: Machine) -> tuple[Change, ...]:
    """The changes from one machine to another, in its order."""
    before, after = (
        m.model_dump(mode="json", exclude_none=True, by_alias=True) for m in (old, new)
    )
    return tuple(_changes_between(before, after, ()))


def _changes_between(old: Any, new: Any, path: tuple[str, ...]) -> Iterator[Change]:
    if old == new:
        return
    if isinstance(old, dict) and isinstance(new, dict):
        for key in dict.fromkeys((*old, *new)):
            yield from _changes_between(old.get(key), new.get(key), (*path, str(key)))
    elif isinstance(old, list) and isinstance(new, list):
        yield from _item_changes(old, new, path)
    else:
        # Each on one line, which begins shortly before the first difference.
        texts = ["" if one is None else text_or_json(one) for one in (old, new)]
        common = _common_length(*texts)
        skipped = common - _BEFORE if common > WIDTH // 2 else 0
        before, after = (one_line("…" * (skipped > 0) + one[skipped:], WIDTH) for one in texts)
        yield Change(place=".".join(path), before=before, after=after)


def _item_changes(old: list[Any], new: list[Any], path: tuple[str, ...]) -> Iterator[Change]:
    """The changes between equal items at both ends, so that one more at the top is one change."""
    head = _common_length(old, new)
    tail = min(_common_length(old[::-1], new[::-1]), len(old) - head, len(new) - head)
    before = old[head : len(old) - tail]
    after = new[head : len(new) - tail]
    for index, (first, second) in enumerate(zip_longest(before, after), head):
        yield from _changes_between(first, second, (*path, str(index)))


def _common_length(old: Sequence[Any], new: Sequence[Any]) -> int:
    pairs = enumerate(zip(old, new, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(old), len(new)))
