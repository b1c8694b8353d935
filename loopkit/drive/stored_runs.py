"""Stored runs: what a journal keeps of them, by their ids."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

from loopkit.agents.not_runnable import NotRunnable
from loopkit.drive.archive import definition, read_record, refuse_strange, state_after
from loopkit.drive.lost_time import Span, last_counted, seconds_in, spans_of
from loopkit.drive.machine_files import file_if_changed, find_file
from loopkit.drive.stored_event import Stored
from loopkit.engine.events import Usage, Waiting
from loopkit.engine.state import RunState
from loopkit.engine.tasks import Child
from loopkit.journal.errors import UnknownRun
from loopkit.journal.journal import Journal
from loopkit.language import Machine
from loopkit.language.load import file_of_definition, load_resolved
from loopkit.scenario import Scenario, read_resolved
from loopkit.text.run_ids import is_of_batch, place_of

MOST_NAMED = 5
"""How many runs are named if an id is ambiguous."""


class OpenQuestion(NamedTuple):
    """A question that somebody has to answer."""

    place: str
    """The place in the family of the run that asks; empty for the run that was queried."""
    state: RunState
    """The run that asks."""
    question: Waiting


class StoredRuns:
    """The runs of one journal, to be read."""

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
        return [read_record(run, record) for record in await self.journal.read(run, after)]

    async def state_of(self, run: str) -> RunState:
        return state_after(run, await self.events(run))

    async def machine_of(self, state: RunState) -> Machine:
        machine = await definition(self.journal, state.run, state.definition, load_resolved)
        refuse_strange(state, machine)
        return machine

    async def machine_name_of(self, state: RunState) -> Path:
        """The path that the run's machine was read from, as it was given then."""
        return await definition(self.journal, state.run, state.definition, file_of_definition)

    async def machine_file_of(self, state: RunState) -> Path | None:
        """The file that the run's machine was read from, found from here or the project folder."""
        return find_file(await self.machine_name_of(state), (Path(), Path(state.folder)))

    async def machine_file_if_changed(self, run: str) -> Path | None:
        """The run's machine file, if it no longer matches the run's definition."""
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
        total = state.usage
        for child in open_children(state):
            if await self.journal.has(child.started.child):
                inner = await self.usage_of(await self.state_of(child.started.child))
                # Which part of the time of children counts is known only at their end.
                total = total.plus(inner.replace(time_s=0.0))
        return total

    async def questions(
        self, run: str, *, is_for_artifact: bool | None = None
    ) -> list[OpenQuestion]:
        """The open questions of a run and its children, in the order of their lists.

        `is_for_artifact` selects the requests for artifacts, or else the questions to a person. If
        there are none of that kind, those of the other kind are returned.
        """
        every = [asked async for asked in self._questions(run, "")]
        if is_for_artifact is None:
            return every
        return [
            asked for asked in every if (asked.question.wanted is not None) == is_for_artifact
        ] or every

    async def questions_of(self, state: RunState) -> list[OpenQuestion]:
        """The open questions of a run in this state and of its children."""
        return [asked async for asked in self._questions_of(state, "")]

    async def _questions(self, run: str, place: str) -> AsyncIterator[OpenQuestion]:
        if await self.journal.has(run):
            async for asked in self._questions_of(await self.state_of(run), place):
                yield asked

    async def _questions_of(self, state: RunState, place: str) -> AsyncIterator[OpenQuestion]:
        if state.status == "waiting" and state.question is not None:
            yield OpenQuestion(place, state, state.question)
        for child in open_children(state):
            inner = place_of(child.started.state, child.started.key, place)
            async for asked in self._questions(child.started.child, inner):
                yield asked

    async def commitment(self, run: str) -> Usage:
        """The committed usage of a run and all its children; zero if the run has not begun."""
        if not await self.journal.has(run):
            return Usage()
        return await self.commitment_of(await self.state_of(run))

    async def commitment_of(self, state: RunState) -> Usage:
        """The committed usage of a run in this state and of all its children."""
        total = state.committed
        for child in open_children(state):
            total = total.plus(await self.commitment(child.started.child))
        return total

    async def lost_time(self, state: RunState) -> float:
        """The seconds in which open children of a run worked and which it has not counted.

        There are some if the process that drove the run was killed.
        """
        if not (children := open_children(state)):
            return 0.0
        spans = [span for child in children for span in await self._spans(child.started.child)]
        return seconds_in(spans, last_counted(await self.events(state.run)))

    async def _spans(self, run: str) -> list[Span]:
        """When a run and its open children were driven, as far as their records say."""
        if not await self.journal.has(run):
            return []
        history = await self.events(run)
        spans = list(spans_of(history))
        for child in open_children(state_after(run, history)):
            spans += await self._spans(child.started.child)
        return spans


def open_children(state: RunState) -> list[Child]:
    """The children of a run that were begun and, as far as it knows, have not ended, in order."""
    begun = (child for children in state.children.values() for child in children.values())
    open_ones = [child for child in begun if child.ended is None]
    return sorted(open_ones, key=lambda child: child.started.index)
