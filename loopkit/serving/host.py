"""A host: the runs that a server starts and continues, by itself those that nobody submitted."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Self

from loopkit.agents.port import NotRunnable
from loopkit.app import App
from loopkit.document.problems import did_you_mean
from loopkit.drive.active import Clock
from loopkit.drive.inbox import AnyAnswer
from loopkit.drive.stored_runs import Stored
from loopkit.journal.errors import RunBusy
from loopkit.journal.journal import open_journal
from loopkit.journal.records import Due
from loopkit.language.load import Loaded
from loopkit.machine.inputs import complete_input
from loopkit.serving.due_runs import DueRuns
from loopkit.text import one_line
from loopkit.text.run_ids import root_of

Hear = Callable[[str, Stored], None]
"""Receives each durable event of a family, with the id of its run."""
THIS_SERVER = "this server"
A_WORKER = "a worker"


class Posted(NamedTuple):
    is_new: bool
    """False if the same answer was given before."""
    driver: str
    """Who drives the run now: `this server`, another process by its name, `a worker` of those to
    which it was submitted, or `nobody` if the run is over or has stopped since."""


class Host(DueRuns):
    """Starts runs of certain machines, and drives these and others of the journal."""

    def __init__(
        self,
        place: Path | str,
        machines: Sequence[Loaded],
        say: Callable[[str], None] = print,
        clock: Clock | None = None,
    ) -> None:
        """`machines` are sound, and named by whoever started the server; `place` is that of
        the journal. `say` reports faults of runs that no caller waits for.

        Raises NotRunnable if two machines have the same name, and JournalError.
        """
        self.machines: dict[str, Loaded] = {}
        for loaded in machines:
            name = loaded.machine.label
            if self.machines.setdefault(name, loaded) is not loaded:
                raise NotRunnable(f"two of the machines are named `{name}`; rename one of them")
        app = App.open(
            place,
            open_journal(place, clock=clock.now if clock else time.time),
            clock=clock,
            listeners_of=lambda run: (lambda stored: self._tell(run, stored),),
        )
        super().__init__(app)
        self._project = place.absolute().parent if isinstance(place, Path) else Path.cwd()
        self._print = say
        self._hearing: defaultdict[str, list[Hear]] = defaultdict(list)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def start(self, machine: str, inputs: Mapping[str, Any]) -> str:
        """Start a run, drive it, and return its id, which is in the journal by then.

        Raises NotRunnable if there is no such machine or its agents cannot be played,
        InvalidInput, and JournalError.
        """
        self._refuse_at_end()
        if machine not in self.machines:
            hint = did_you_mean(machine, self.machines) or "there is none"
            raise NotRunnable(f"there is no machine `{one_line(machine)}` here; {hint}")
        loaded = self.machines[machine]
        complete = complete_input(loaded.machine, inputs, self._project)
        active = await self.app.start(loaded, complete)
        await active.append()
        self._drive(active)
        return active.state.run

    async def resume(self, run: str) -> None:
        """Continue a run; a child continues with its family.

        Raises NotRunnable if it is over, and JournalError: RunBusy if it is driven already.
        """
        self._refuse_at_end()
        self._drive(await self.app.resume(run))

    async def post(self, run: str, given: AnyAnswer, question: str | None = None) -> Posted:
        """Answer the open question of a run, or deliver what it waits for, and continue the run.

        With `question`, the open question must have that id. Raises AnswerRefused, NotRunnable
        if there is no open question, and JournalError. A repeated post does not continue a run
        that has stopped since.
        """
        is_new = await self.app.post(run, given, question)
        stopped = None if is_new else (await self.app.state_of(root_of(run))).suspended
        if stopped is not None and stopped.reason not in ("waiting", "interrupted"):
            # It has stopped for another reason since, and has not been resumed.
            return Posted(is_new, "nobody")
        if await self.app.journal.is_submitted(root_of(run)):
            return Posted(is_new, A_WORKER)
        return Posted(is_new, await self.go_on(run))

    async def go_on(self, run: str) -> str:
        """Drive a run unless another process does, and return its driver, as in `Posted`."""
        try:
            await self.resume(root_of(run))
        except RunBusy as busy:
            is_here = busy.owner.name == self.app.journal.owner
            return THIS_SERVER if is_here else str(busy.owner)
        except NotRunnable:
            if not await self.app.is_over(root_of(run)):
                raise
            return "nobody"
        return THIS_SERVER

    async def wait_until_released(self, run: str) -> None:
        """Wait until this process no longer drives the family of a run."""
        root = root_of(run)
        while tasks := [task for task, one in self._driven.items() if one.state.run == root]:
            await asyncio.wait(tasks)

    @contextmanager
    def hearing(self, run: str, hear: Hear) -> Iterator[None]:
        """Pass the events of a family that this process drives to `hear`, inside the context."""
        root = root_of(run)
        self._hearing[root].append(hear)
        try:
            yield
        finally:
            self._hearing[root].remove(hear)
            if not self._hearing[root]:
                del self._hearing[root]

    def stop_run(self, run: str) -> None:
        """Stop a run and its family after the current step; it can be resumed."""
        for active in self._driven.values():
            if active.state.run == root_of(run):
                active.stop()

    def _refuse_at_end(self) -> None:
        if self.stopping:
            raise NotRunnable("the server is about to end; start it again")

    def _tell(self, run: str, stored: Stored) -> None:
        for hear in self._hearing.get(root_of(run), ()):
            hear(run, stored)

    def _say(self, run: str, fault: str) -> None:
        self._print(f"{run}: {fault}")

    async def _find_due(self, limit: int) -> Sequence[Due]:
        return await self.app.journal.due(limit, every=True)

    async def _go_on(self, run: str) -> bool:
        """Go on without a person: not with a run that was killed at its work, or is a worker's."""
        if await self.app.journal.is_submitted(run):
            return False
        state = await self.app.state_of(run)
        stopped = state.suspended.reason if state.suspended else ""
        if state.status == "running" or stopped == "interrupted" or await self._is_in_vain(state):
            return False
        await self.app.refuse_here(state)
        return await self.go_on(run) == THIS_SERVER
