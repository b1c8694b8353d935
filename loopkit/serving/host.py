"""A host: the runs that a server starts and goes on with, all over one journal."""

from __future__ import annotations

import asyncio
import os
import traceback
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Self

from loopkit.agents.assignment import NotRunnable
from loopkit.app import App
from loopkit.document.problems import did_you_mean
from loopkit.drive.active import ActiveRun, Stored
from loopkit.drive.notify import notify
from loopkit.engine.events import Delivery, HumanAnswer
from loopkit.journal import JournalError, RunBusy
from loopkit.language.load import Loaded
from loopkit.machine.inputs import complete_input
from loopkit.text import one_line
from loopkit.text.run_ids import root_of

Hear = Callable[[str, Stored], None]
"""Gets each durable event of a family, with the id of its run."""


THIS_SERVER = "this server"
"""Who drives a run that this process does."""


class Taken(NamedTuple):
    """What became of an answer."""

    is_new: bool
    """False where the same answer was given before."""
    driver: str
    """Who drives the run now: `this server`, another process by its name, or `nobody`, where the
    run is over or has stopped since."""


class Host:
    """Starts runs of certain machines, and drives these and others of the journal."""

    def __init__(
        self, state: Path, machines: Sequence[Loaded], say: Callable[[str], None] = print
    ) -> None:
        """`machines` are sound, and named by whoever started the server; `state` is the folder of
        the journal. What goes wrong with a run that nobody waits for is said with `say`.

        Raises NotRunnable where two machines have one name, and JournalError.
        """
        self.machines: dict[str, Loaded] = {}
        for loaded in machines:
            name = loaded.machine.label
            if name in self.machines:
                raise NotRunnable(f"two of the machines are named `{name}`; rename one of them")
            self.machines[name] = loaded
        self.app = App.open(
            state, listeners_of=lambda run: (lambda stored: self._tell(run, stored),)
        )
        self.stopping = False
        self._say = say
        self._driven: dict[asyncio.Task[None], ActiveRun] = {}
        self._hearing: defaultdict[str, list[Hear]] = defaultdict(list)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def start(self, machine: str, inputs: Mapping[str, Any]) -> str:
        """Start a run and drive it on; its id, under which the journal has it by now.

        Raises NotRunnable where there is no such machine or nobody can play its agents,
        InvalidInput, and JournalError.
        """
        self._refuse_at_end()
        if machine not in self.machines:
            hint = did_you_mean(machine, self.machines) or "there is none"
            raise NotRunnable(f"there is no machine `{one_line(machine)}` here; {hint}")
        loaded = self.machines[machine]
        active = await self.app.start(loaded, complete_input(loaded.machine, inputs))
        await active.append()
        self._drive(active)
        return active.state.run

    async def resume(self, run: str) -> None:
        """Go on with a run, of a child with its family.

        Raises NotRunnable where it is over, and JournalError: RunBusy where it is driven already.
        """
        self._refuse_at_end()
        self._drive(await self.app.resume(run))

    async def answer(self, run: str, answer: HumanAnswer, question: str | None = None) -> Taken:
        """Answer the open question of a run, the one of that id if it is given, and go on.

        Raises AnswerRefused, NotRunnable where nothing is asked, and JournalError.
        """
        is_new = await self.app.post_answer(run, answer, question)
        return await self._taken(run, is_new=is_new)

    async def reply(self, run: str, delivery: Delivery, question: str | None = None) -> Taken:
        """Deliver the artifact that a run waits for from outside, and go on; as `answer` does."""
        is_new = await self.app.reply(run, delivery, question)
        return await self._taken(run, is_new=is_new)

    async def _taken(self, run: str, *, is_new: bool) -> Taken:
        """Go on with a run to which something was posted, unless it was posted before."""
        stopped = None if is_new else (await self.app.state_of(root_of(run))).suspended
        if stopped is not None and stopped.reason not in ("waiting", "interrupted"):
            # It stopped for another reason since, and nobody has asked for it to be resumed.
            return Taken(is_new, "nobody")
        return Taken(is_new, await self.go_on(run))

    async def go_on(self, run: str) -> str:
        """Drive a run on unless another process does; who drives it, as in `Taken`."""
        try:
            await self.resume(root_of(run))
        except RunBusy as busy:
            return str(busy.owner) if busy.owner.pid != os.getpid() else THIS_SERVER
        except NotRunnable:
            if not await self.app.is_over(root_of(run)):
                raise
            return "nobody"
        return THIS_SERVER

    async def cancel(self, run: str, reason: str) -> str:
        """End a run, or leave word for whoever drives it; what happened, in a sentence.

        Raises NotRunnable for a run that is over, and for a child; JournalError.
        """
        return await self.app.cancel(run, reason)

    async def stopped(self, run: str) -> None:
        """Wait until this process has let go of the family of a run."""
        root = root_of(run)
        while tasks := [task for task, one in self._driven.items() if one.state.run == root]:
            await asyncio.wait(tasks)

    @contextmanager
    def hearing(self, run: str, hear: Hear) -> Iterator[None]:
        """Pass on the events of a run and its children that this process drives, while it lasts."""
        root = root_of(run)
        self._hearing[root].append(hear)
        try:
            yield
        finally:
            self._hearing[root].remove(hear)
            if not self._hearing[root]:
                del self._hearing[root]

    def stop_run(self, run: str) -> None:
        """Stop a run and its family after the step in hand; it can be resumed."""
        for active in self._driven.values():
            if active.state.run == root_of(run):
                active.stop()

    def stop(self) -> None:
        """Begin no run any more, and stop those in hand after their step; they can be resumed."""
        self.stopping = True
        for active in self._driven.values():
            active.stop()

    async def close(self) -> None:
        """Stop, wait until every step in hand is stored, and let go of the journal."""
        self.stop()
        while self._driven:
            await asyncio.wait(self._driven)
        await self.app.close()

    def _refuse_at_end(self) -> None:
        if self.stopping:
            raise NotRunnable("the server is about to end; start it again")

    def _drive(self, active: ActiveRun) -> None:
        if self.stopping:
            active.stop()
        task = asyncio.create_task(self._work(active))
        self._driven[task] = active
        task.add_done_callback(self._driven.pop)

    async def _work(self, active: ActiveRun) -> None:
        try:
            await self.app.drive(active)
            fault = await notify(active)
        except JournalError as error:
            fault = f"error: {error}"
        except Exception as bug:  # noqa: BLE001 - one run must not end those of others
            fault = bug_text(bug)
        if fault:
            self._say(f"{active.state.run}: {fault}")

    def _tell(self, run: str, stored: Stored) -> None:
        for hear in self._hearing.get(root_of(run), ()):
            hear(run, stored)


def bug_text(bug: Exception) -> str:
    """What is printed about a bug that has stopped a run."""
    told = "".join(traceback.format_exception(bug)[-4:]).rstrip()
    return f"internal error, a bug in loopkit; the run can be resumed\n{told}"
