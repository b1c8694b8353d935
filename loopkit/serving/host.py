"""Runs that go on by themselves: those of a server, which nobody submitted, and of a worker.

A worker drives submitted runs, a slice of each at a time, and leaves the rest to others.
"""

from __future__ import annotations

import asyncio
import os
import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
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
from loopkit.engine.state import RunState
from loopkit.journal.contents import host_label
from loopkit.journal.errors import JournalError, RunBusy, RunUnreadable, UnknownRun
from loopkit.journal.journal import open_journal
from loopkit.journal.records import Due
from loopkit.language.agents.agent import CalledAgent
from loopkit.language.load import Loaded
from loopkit.language.machine import Machine
from loopkit.language.states.each import ChildrenState
from loopkit.machine.inputs import complete_input
from loopkit.observability.logs import LOGGER
from loopkit.outside.processes import GROUPS
from loopkit.text import one_line
from loopkit.text.run_ids import root_of

POLL_S = 1.0
"""The interval at which it looks for runs that are due."""
LISTED = 100
"""The number of due runs that it asks for at once."""
AT_ONCE = 10
"""The number of due runs that it takes over at once: each takes many requests to the journal."""


class DueRuns(ABC):
    """Runs that this process drives, and those that it goes on with because they are due.

    That is when the time of a question runs out, when a provider has said that it is worth asking
    again or, for a worker, whenever nobody drives what was submitted.
    """

    def __init__(self, app: App) -> None:
        self.app = app
        self.stopping = False
        self._driven: dict[asyncio.Task[None], ActiveRun] = {}
        self._passed: dict[str, float | None] = {}
        """The runs that were due and are left alone, and since when they were due then."""
        self._left: dict[str, float | None] = {}
        """The runs that were due and were not looked at yet."""
        self._fresh_until = 0.0
        self._woken = asyncio.Event()
        self._keeping: asyncio.Task[None] | None = None

    @abstractmethod
    async def _find_due(self, limit: int) -> Sequence[Due]:
        """At most so many runs that are due and may go on here; raises JournalError."""

    @abstractmethod
    async def _go_on(self, run: str) -> bool:
        """Drive a run, unless another process does; False if it is to be left alone.

        Raises NotRunnable, ProblemsFound and JournalError.
        """

    @abstractmethod
    def _say(self, run: str, fault: str) -> None:
        """Report what went wrong with a run that no caller waits for."""

    @property
    def _room(self) -> int:
        """How many more runs can be driven."""
        return LISTED

    def stop(self) -> None:
        """Begin no more runs, and stop the current ones after their step; they can be resumed."""
        self.stopping = True
        self._woken.set()
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

    def _drive(self, active: ActiveRun) -> None:
        if self.stopping:
            active.stop()
        task = asyncio.create_task(self._work(active))
        self._driven[task] = active
        task.add_done_callback(self._end)

    def _end(self, task: asyncio.Task[None]) -> None:
        del self._driven[task]
        if self._left:
            self._woken.set()

    async def _work(self, active: ActiveRun) -> None:
        try:
            await self.app.drive(active)
            fault = await notify(active)
        except JournalError as error:
            fault = f"error: {error}"
        except Exception as bug:  # noqa: BLE001 - one run must not end those of others
            fault = bug_text(bug)
        if fault:
            self._say(active.state.run, fault)

    def keep_appointments(self) -> None:
        """Go on with runs that are due, from now on until it is stopped."""
        self._keeping = asyncio.create_task(self._keep_appointments())

    async def _keep_appointments(self) -> None:
        while not self.stopping:
            self._woken.clear()
            # Requests report that the journal is locked or full; here it is tried again.
            with suppress(JournalError):
                await self.continue_due()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._woken.wait(), POLL_S)

    async def continue_due(self) -> None:
        """Go on with every run that is due now, while there is room; raises JournalError."""
        now = asyncio.get_running_loop().time()
        if not self._left or now > self._fresh_until:
            self._left = dict(await self._find_due(LISTED + len(self._passed)))
            self._passed = {run: at for run, at in self._passed.items() if run in self._left}
            self._fresh_until = now + POLL_S
        while self._left and self._room > 0 and not self.stopping:
            first = [*islice(self._left.items(), min(self._room, AT_ONCE))]
            for run, _ in first:
                del self._left[run]
            known = self._passed.items()
            await asyncio.gather(*(self._try(*each) for each in first if each not in known))

    async def _try(self, run: str, since: float | None) -> None:
        fault = ""
        try:
            if await self._go_on(run):
                return
        except UnknownRun:
            pass
        except (NotRunnable, ProblemsFound, RunUnreadable) as error:
            fault = "" if self.stopping else str(error)
        except JournalError:
            # It can't be written now; it is tried again.
            return
        except Exception as bug:  # noqa: BLE001 - one run must not keep others waiting
            fault = bug_text(bug)
        if fault:
            self._say(run, fault)
        self._passed[run] = since

    async def _is_in_vain(self, state: RunState) -> bool:
        """Whether a run was resumed in vain more often than its agents may try a call."""
        if state.suspended is None or state.suspended.resume_at is None:
            return False
        most = max(_attempts(await self.app.machine_of(state)), default=1)
        count = count_vain_suspensions(await self.app.events(state.run))
        if count > most:
            fault = f"suspended {count} times in a row with nothing done in between"
            self._say(state.run, f"{fault}; a person resumes it: `loopkit resume {state.run}`")
        return count > most


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
        )
        super().__init__(app)
        self._project = place.absolute().parent if isinstance(place, Path) else Path.cwd()
        self._print = say

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def start(self, machine: str, inputs: Mapping[str, Any], run: str = "") -> str:
        """Start a run, drive it, and return its id, which is in the journal by then.

        Without an id it gets one. Raises NotRunnable if there is no such machine or its agents
        cannot be played, InvalidInput, and JournalError.
        """
        self._refuse_at_end()
        if machine not in self.machines:
            hint = did_you_mean(machine, self.machines) or "there is none"
            raise NotRunnable(f"there is no machine `{one_line(machine)}` here; {hint}")
        loaded = self.machines[machine]
        complete = complete_input(loaded.machine, inputs, self._project)
        active = await self.app.start(loaded, complete, run=run)
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

    def stop_run(self, run: str) -> None:
        """Stop a run and its family after the current step; it can be resumed."""
        for active in self._driven.values():
            if active.state.run == root_of(run):
                active.stop()

    def _refuse_at_end(self) -> None:
        if self.stopping:
            raise NotRunnable("the server is about to end; start it again")

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


LOG = LOGGER.getChild("worker")
_MOST_CHECKED = 1000
_LONGEST_END_S = 5.0
"""How long the end may take after the time of the drain: with its default, half a minute in all."""


class Worker(DueRuns):
    def __init__(
        self, app: App, *, parallel: int, labels: Sequence[str], slice_s: float, drain_s: float
    ) -> None:
        """At its end, steps in hand have `drain_s` seconds. It needs no label for its own host."""
        super().__init__(app)
        self.labels = tuple(dict.fromkeys((*labels, host_label())))
        self._parallel = parallel
        self._slice_s = slice_s
        self._drain_s = drain_s
        self._drain: asyncio.TimerHandle | None = None

    async def work(self) -> None:
        """Drive what is due until it is stopped, finish what is in hand, and close the app."""
        _log("started", labels=self.labels, parallel=self._parallel)
        hints = asyncio.create_task(self.app.journal.heed_hints(self._heed))
        self.keep_appointments()
        assert self._keeping is not None
        try:
            await self._keeping
        finally:
            hints.cancel()
            await self.close()
        if self._drain is not None:
            self._drain.cancel()
        _log("ended")

    def stop(self) -> None:
        super().stop()
        if self._drain is None:
            _log("stopping", runs=len(self._driven))
            loop = asyncio.get_running_loop()
            self._drain = loop.call_later(self._drain_s, self._abort)

    def _abort(self) -> None:
        for active in self._driven.values():
            active.abort()
        self._drain = asyncio.get_running_loop().call_later(_LONGEST_END_S, self._leave)

    def _leave(self) -> None:
        """End as if killed: a journal that does not answer is waited for in vain."""
        LOG.error("the journal does not answer; its runs are taken over", extra={"event": "fault"})
        GROUPS.end(lambda: os._exit(1))

    async def refusals(self) -> dict[str, str]:
        """Of runs that are due, why each can't be played here; empty if it can."""
        return {run: await self._refusal(run) for run, _ in await self._find_due(_MOST_CHECKED)}

    async def _refusal(self, run: str) -> str:
        try:
            state = await self.app.state_of(run)
            if not state.is_over:
                await self.app.refuse_here(state)
        except (NotRunnable, ProblemsFound, RunUnreadable) as error:
            return str(error)
        return ""

    @property
    def _room(self) -> int:
        return self._parallel - len(self._driven)

    async def _heed(self) -> None:
        self._left.clear()
        self._woken.set()
        # Others get the next hint, as long as there is no room here.
        while self._room <= 0:
            await asyncio.wait(self._driven, return_when=asyncio.FIRST_COMPLETED)

    async def _find_due(self, limit: int) -> Sequence[Due]:
        return await self.app.journal.due(limit, self.labels)

    async def _go_on(self, run: str) -> bool:
        state = await self.app.state_of(run)
        if state.is_over:
            await self.app.empty_inbox(run)
            return True
        if await self._is_in_vain(state):
            return False
        await self.app.refuse_here(state)
        with suppress(RunBusy):
            active = await self.app.resume(run)
            _log("taken", run)
            active.is_due_again = True
            self._drive(active)
        return True

    async def _work(self, active: ActiveRun) -> None:
        began = time.monotonic()
        over = asyncio.get_running_loop().call_later(self._slice_s, active.stop)
        try:
            await super()._work(active)
        finally:
            over.cancel()
        seconds = round(time.monotonic() - began, 3)
        _log("left", active.claim.run, status=active.state.status, seconds=seconds)

    def _say(self, run: str, fault: str) -> None:
        LOG.warning("%s: %s", run, fault, extra={"run": run, "event": "fault"})


def _log(event: str, run: str = "", **fields: object) -> None:
    place = {"run": run} if run else {}
    LOG.info("%s", f"{run}: {event}" if run else event, extra={**place, "event": event, **fields})
