"""Stored runs: what a journal keeps of them, by their ids."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

from loopkit.agents.assignment import NotRunnable
from loopkit.drive.active import OpenQuestion, Stored
from loopkit.drive.archive import definition, read_record, refuse_strange, state_after
from loopkit.drive.repair.files import changed_file, found_file
from loopkit.engine.events import Usage
from loopkit.engine.state import RunState
from loopkit.engine.tasks import Child
from loopkit.journal import Journal, UnknownRun
from loopkit.language import Machine
from loopkit.language.load import file_of_definition, load_resolved
from loopkit.scenario import Scenario, read_resolved
from loopkit.text.run_ids import place_of

MOST_NAMED = 5
"""How many runs are named where an id is not told in full."""


class StoredRuns:
    """The runs of one journal, to be read."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal

    async def run_named(self, beginning: str) -> str:
        """The id of the one run that begins like this; raises UnknownRun, or NotRunnable."""
        found = await self.journal.named(beginning, limit=MOST_NAMED)
        if not found:
            raise UnknownRun(beginning)
        if beginning in found:
            return beginning
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
        """The file that the run's machine was read from, as it was named then."""
        return await definition(self.journal, state.run, state.definition, file_of_definition)

    async def machine_file_of(self, state: RunState) -> Path | None:
        """The same where it is now, seen from here or from the project folder."""
        return found_file(await self.machine_name_of(state), (Path(), Path(state.folder)))

    async def changed_file(self, run: str) -> Path | None:
        """The run's machine file, where it says something else than the run has by now."""
        state = await self.state_of(run)
        stored = await definition(self.journal, run, state.definition, str)
        return changed_file(stored, await self.machine_file_of(state))

    async def scenario_of(self, state: RunState) -> Scenario | None:
        if state.script is None:
            return None
        return await definition(self.journal, state.run, state.script, read_resolved)

    async def is_over(self, run: str) -> bool:
        return (await self.state_of(run)).is_over

    async def usage_of(self, state: RunState) -> Usage:
        """What a run has spent, and its children that it does not count yet because they go on."""
        total = state.usage
        for child in unfinished(state):
            if await self.journal.has(child.started.child):
                inner = await self.usage_of(await self.state_of(child.started.child))
                # Of the time of children it is known only at their end what counts.
                total = total.plus(inner.replace(time_s=0.0))
        return total

    async def questions(
        self, run: str, *, is_for_artifact: bool | None = None
    ) -> list[OpenQuestion]:
        """What a run and its children ask now, in the order of their lists.

        With `is_for_artifact` only the requests for artifacts, or only the questions to a person;
        where there are none of these, those of the other kind, to tell what is asked instead.
        """
        every = [asked async for asked in self._questions(run, "")]
        if is_for_artifact is None:
            return every
        return [
            asked for asked in every if (asked.question.wanted is not None) == is_for_artifact
        ] or every

    async def questions_of(self, state: RunState) -> list[OpenQuestion]:
        """All that a run in a certain state and its children ask."""
        return [asked async for asked in self._questions_of(state, "")]

    async def _questions(self, run: str, place: str) -> AsyncIterator[OpenQuestion]:
        if await self.journal.has(run):
            async for asked in self._questions_of(await self.state_of(run), place):
                yield asked

    async def _questions_of(self, state: RunState, place: str) -> AsyncIterator[OpenQuestion]:
        if state.status == "waiting" and state.question is not None:
            yield OpenQuestion(place, state, state.question)
        for child in unfinished(state):
            inner = place_of(child.started.state, child.started.key, place)
            async for asked in self._questions(child.started.child, inner):
                yield asked

    async def committed(self, run: str) -> Usage:
        """What a run and all its children have committed; nothing where it has not begun."""
        if not await self.journal.has(run):
            return Usage()
        return await self.committed_of(await self.state_of(run))

    async def committed_of(self, state: RunState) -> Usage:
        """The same of a run in a certain state."""
        total = state.committed
        for child in unfinished(state):
            total = total.plus(await self.committed(child.started.child))
        return total


def unfinished(state: RunState) -> list[Child]:
    """The children of a run that were begun and, as far as it knows, have not ended, in order."""
    begun = (child for children in state.children.values() for child in children.values())
    open_ones = [child for child in begun if child.ended is None]
    return sorted(open_ones, key=lambda child: child.started.index)
