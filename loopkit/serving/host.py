"""A host: the runs that a server starts and continues, and when it continues them by itself.

That is when the time of a question runs out, or when a provider has said that it is worth asking
again. The journal says which runs are due, whichever process has left them.
"""

from __future__ import annotations

import asyncio
import time
import traceback
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, Self

from loopkit.agents.port import NotRunnable
from loopkit.app import App
from loopkit.document.problems import ProblemsFound, did_you_mean
from loopkit.drive.active import ActiveRun, Clock
from loopkit.drive.inbox import AnyAnswer
from loopkit.drive.notify import notify
from loopkit.drive.stored_runs import Stored
from loopkit.engine.events import ChildEnded, Decided, Replied, Suspended
from loopkit.journal.errors import JournalError, RunBusy, RunUnreadable, UnknownRun
from loopkit.journal.journal import open_journal
from loopkit.language.agents.agent import CalledAgent
from loopkit.language.load import Loaded
from loopkit.language.machine import Machine
from loopkit.language.states.each import ChildrenState
from loopkit.machine.inputs import complete_input
from loopkit.text import one_line
from loopkit.text.run_ids import root_of

Hear = Callable[[str, Stored], None]
"""Receives each durable event of a family, with the id of its run."""
POLL_S = 1.0
"""The interval at which it looks for runs that are due."""
LISTED = 100
"""The number of due runs that it continues at once."""
THIS_SERVER = "this server"


class Posted(NamedTuple):
    is_new: bool
    """False if the same answer was given before."""
    driver: str
    """Who drives the run now: `this server`, another process by its name, or `nobody` if the run
    is over or has stopped since."""


class Host:
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
        self.app = App.open(
            place,
            open_journal(place, clock=clock.now if clock else time.time),
            clock=clock,
            listeners_of=lambda run: (lambda stored: self._tell(run, stored),),
        )
        self._passed: dict[str, float | None] = {}
        """The runs that were due and looked at, and since when they were due then."""
        self._keeping: asyncio.Task[None] | None = None
        self._stops = asyncio.Event()
        self._say = say
        self._driven: dict[asyncio.Task[None], ActiveRun] = {}
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
        complete = complete_input(loaded.machine, inputs, self.app.folder)
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

    def stop(self) -> None:
        """Begin no more runs, and stop the current ones after their step; they can be resumed."""
        self._stops.set()
        for active in self._driven.values():
            active.stop()

    async def close(self) -> None:
        """Stop, wait until every current step is stored, and close the journal."""
        self.stop()
        if self._keeping is not None:
            # It may be about to claim a run, which is released then.
            await self._keeping
        while self._driven:
            await asyncio.wait(self._driven)
        await self.app.close()

    def _refuse_at_end(self) -> None:
        if self._stops.is_set():
            raise NotRunnable("the server is about to end; start it again")

    def _drive(self, active: ActiveRun) -> None:
        if self._stops.is_set():
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

    def keep_appointments(self) -> None:
        """Continue runs that are due, from now on until it is stopped."""
        self._keeping = asyncio.create_task(self._keep_appointments())

    async def _keep_appointments(self) -> None:
        while not self._stops.is_set():
            # Requests report that the journal is locked or full; here it is tried again.
            with suppress(JournalError):
                await self.continue_due()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stops.wait(), POLL_S)

    async def continue_due(self) -> None:
        """Continue every run that is due now; raises JournalError."""
        found = dict(await self.app.journal.due(LISTED + len(self._passed), every=True))
        known = {*found, *(active.state.run for active in self._driven.values())}
        self._passed = {run: since for run, since in self._passed.items() if run in known}
        for run, since in found.items():
            if self._stops.is_set() or (run in self._passed and self._passed[run] == since):
                continue
            try:
                if await self._may_continue(run):
                    await self.go_on(run)
            except (UnknownRun, RunUnreadable):
                pass
            except JournalError:
                # It can't be written now; it is tried again.
                continue
            except (NotRunnable, ProblemsFound) as error:
                if not self._stops.is_set():
                    self._say(f"{run}: {error}")
            except Exception as bug:  # noqa: BLE001 - one run must not keep others waiting
                self._say(f"{run}: {bug_text(bug)}")
            self._passed[run] = since

    async def _may_continue(self, run: str) -> bool:
        """Whether a run that is due goes on without a person.

        One that was killed at its work does not, and neither does one that was resumed in vain more
        often than its agents may try a call.
        """
        state = await self.app.state_of(run)
        if state.status == "running":
            return False
        if state.suspended is None or state.suspended.resume_at is None:
            return True
        most = max(_attempts(await self.app.machine_of(state)), default=1)
        count = count_vain_suspensions(await self.app.events(run))
        if count > most:
            fault = f"suspended {count} times in a row with nothing done in between"
            self._say(f"{run}: {fault}; a person resumes it: `loopkit resume {run}`")
        return count <= most


def bug_text(bug: Exception, follows: str = "the run can be resumed") -> str:
    """The text to print about a bug, which has stopped a run or a request."""
    trace = "".join(traceback.format_exception(bug)[-4:]).rstrip()
    return f"internal error, a bug in loopkit; {follows}\n{trace}"


def count_vain_suspensions(history: Sequence[Stored]) -> int:
    """How often a run was suspended until a set time since it last made progress."""
    count = 0
    for stored in reversed(history):
        event = stored.event
        if isinstance(event, Suspended):
            count += event.resume_at is not None
        elif isinstance(event, Replied | Decided | ChildEnded):
            break
    return count


def _attempts(machine: Machine) -> Iterator[int]:
    for agent in machine.agents.values():
        if isinstance(agent, CalledAgent):
            yield agent.retry.attempts
    for state in machine.states_of(ChildrenState).values():
        yield from _attempts(state.child)
