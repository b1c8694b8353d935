"""A host: the runs that a server starts and continues, and when it continues them by itself.

That is when the time of a question runs out, or when a provider has said that it is worth asking
again. These moments come from the records of the journal, also those of other processes.
"""

from __future__ import annotations

import asyncio
import os
import time
import traceback
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from heapq import heappop, heappush
from pathlib import Path
from typing import Any, NamedTuple, Self

from loopkit.agents.port import NotRunnable
from loopkit.app import App
from loopkit.document.problems import ProblemsFound, did_you_mean
from loopkit.drive.active import ActiveRun
from loopkit.drive.inbox import AnyAnswer
from loopkit.drive.notify import notify
from loopkit.drive.stored_runs import Stored, read_stored
from loopkit.engine.events import ENDS, ChildEnded, Decided, Event, Replied, Suspended, Waiting
from loopkit.engine.state import RunState
from loopkit.journal.errors import JournalError, RunBusy, RunUnreadable, UnknownRun
from loopkit.journal.journal import Journal
from loopkit.journal.records import Place
from loopkit.language.agents.agent import CalledAgent
from loopkit.language.load import Loaded
from loopkit.language.machine import Machine
from loopkit.language.states.each import ChildrenState
from loopkit.machine.inputs import complete_input
from loopkit.text import one_line
from loopkit.text.run_ids import is_child, root_of

Hear = Callable[[str, Stored], None]
"""Receives each durable event of a family, with the id of its run."""
THIS_SERVER = "this server"
"""The name of this process as the driver of a run."""


class Posted(NamedTuple):
    is_new: bool
    """False if the same answer was given before."""
    driver: str
    """Who drives the run now: `this server`, another process by its name, or `nobody` if the run
    is over or has stopped since."""


class Host:
    """Starts runs of certain machines, and drives these and others of the journal."""

    def __init__(
        self, state: Path, machines: Sequence[Loaded], say: Callable[[str], None] = print
    ) -> None:
        """`machines` are sound, and named by whoever started the server; `state` is the folder of
        the journal. `say` reports faults of runs that no caller waits for.

        Raises NotRunnable if two machines have the same name, and JournalError.
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
            return str(busy.owner) if busy.owner.pid != os.getpid() else THIS_SERVER
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
        self.stopping = True
        for active in self._driven.values():
            active.stop()

    async def close(self) -> None:
        """Stop, wait until every current step is stored, and close the journal."""
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


def bug_text(bug: Exception, follows: str = "the run can be resumed") -> str:
    """The text to print about a bug, which has stopped a run or a request."""
    trace = "".join(traceback.format_exception(bug)[-4:]).rstrip()
    return f"internal error, a bug in loopkit; {follows}\n{trace}"


POLL_S = 1.0
"""The interval at which it reads the records of other processes."""
AGAIN_S = 5.0
"""The delay after which it looks again at a run that another process drives."""
LISTED = 100
"""The number of runs in one query at the start."""
STOPS = ("waiting", "suspended")
"""Types of the records that may name a moment."""


class Moment(NamedTuple):
    """The time at which an idle run has to be continued."""

    at: float
    """Unix time."""
    run: str
    question: str
    """The id of the question whose time runs out then; empty where the run is resumed."""


class Appointments:
    """The moments of all runs of a journal, kept for a host."""

    def __init__(
        self,
        host: Host,
        order: Journal,
        say: Callable[[str], None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`order` is that of the host's journal; `clock` gives Unix time."""
        self._host = host
        self._order = order
        self._say = say
        self._clock = clock
        self._queue: list[tuple[float, Moment]] = []
        """When to look at each moment; later than the moment itself if it was postponed."""
        self._place = Place()
        self._stops = asyncio.Event()

    async def run(self) -> None:
        begun = False
        while not self._stops.is_set():
            pause_s = POLL_S
            # Requests report that the journal is locked or full; here it is tried again.
            with suppress(JournalError):
                if not begun:
                    await self.begin()
                    begun = True
                await self.look()
                if self._queue:
                    pause_s = min(max(self._queue[0][0] - self._clock(), 0.0), POLL_S)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stops.wait(), pause_s)

    def stop(self) -> None:
        self._stops.set()

    async def begin(self) -> None:
        """Queue the moments of all runs that wait now; raises JournalError."""
        self._place = await self._order.newest()
        before: str | None = None
        while rows := await self._host.app.journal.runs(
            limit=LISTED, children=True, before=before, skipping=ENDS
        ):
            before = rows[-1].run
            for row in rows:
                with suppress(RunUnreadable, UnknownRun):
                    self._add(moment_of(await self._host.app.state_of(row.run)))
            await asyncio.sleep(0)

    async def look(self) -> None:
        """Queue the moments of new records, and keep those that are due; raises JournalError."""
        while placed := await self._order.records_after(self._place):
            for one in placed:
                if one.record.type in STOPS:
                    with suppress(RunUnreadable):
                        self._add(_moment_in(one.run, read_stored(one.run, one.record).event))
            self._place = placed[-1].place
        while self._queue and self._queue[0][0] <= self._clock() and not self._stops.is_set():
            _, moment = heappop(self._queue)
            try:
                await self._keep(moment)
            except (UnknownRun, RunUnreadable):
                continue
            except JournalError:
                self._postpone(moment)
                raise
            except (NotRunnable, ProblemsFound) as error:
                if not self._stops.is_set():
                    self._say(f"{moment.run}: {error}")
            except Exception as bug:  # noqa: BLE001 - one run must not keep others waiting
                self._say(f"{moment.run}: {bug_text(bug)}")

    def _add(self, moment: Moment | None) -> None:
        if moment is not None:
            heappush(self._queue, (moment.at, moment))

    def _postpone(self, moment: Moment) -> None:
        heappush(self._queue, (self._clock() + AGAIN_S, moment))

    async def _keep(self, moment: Moment) -> None:
        """Continue a run if it still waits for this moment and no process drives it."""
        app = self._host.app
        if moment_of(await app.state_of(moment.run)) != moment:
            return
        root = root_of(moment.run)
        if any(row.is_driven for row in await app.journal.runs(run=root)):
            self._postpone(moment)
        elif moment.question or await self._may_resume(root):
            await self._host.go_on(root)

    async def _may_resume(self, run: str) -> bool:
        """Whether a run was resumed in vain no more often than its agents may try a call."""
        state = await self._host.app.state_of(run)
        most = max(_attempts(await self._host.app.machine_of(state)), default=1)
        count = count_vain_suspensions(await self._host.app.events(run))
        if count > most:
            fault = f"suspended {count} times in a row with nothing done in between"
            self._say(f"{run}: {fault}; a person resumes it: `loopkit resume {run}`")
        return count <= most


def moment_of(state: RunState) -> Moment | None:
    """The moment at which a run in this state has to be continued."""
    if state.status == "waiting":
        return _moment_in(state.run, state.question)
    return _moment_in(state.run, state.suspended) if state.status == "suspended" else None


def _moment_in(run: str, event: Event | None) -> Moment | None:
    if isinstance(event, Waiting) and event.expires_at is not None:
        return Moment(event.expires_at, run, event.question)
    # A child continues with its parent, which is suspended with it.
    if isinstance(event, Suspended) and event.resume_at is not None and not is_child(run):
        return Moment(event.resume_at, run, "")
    return None


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
