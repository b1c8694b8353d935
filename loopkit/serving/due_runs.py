"""Runs that this process drives, and those that it goes on with by itself because they are due.

That is when the time of a question runs out, when a provider has said that it is worth asking again
or, for a worker, whenever nobody drives what was submitted. The journal says which runs are due,
whichever process has left them.
"""

from __future__ import annotations

import asyncio
import traceback
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice

from loopkit.agents.port import NotRunnable
from loopkit.app import App
from loopkit.document.problems import ProblemsFound
from loopkit.drive.active import ActiveRun
from loopkit.drive.notify import notify
from loopkit.drive.stored_runs import Stored
from loopkit.engine.events import ChildEnded, Decided, Replied, Suspended
from loopkit.engine.state import RunState
from loopkit.journal.errors import JournalError, RunUnreadable, UnknownRun
from loopkit.journal.records import Due
from loopkit.language.agents.agent import CalledAgent
from loopkit.language.machine import Machine
from loopkit.language.states.each import ChildrenState

POLL_S = 1.0
"""The interval at which it looks for runs that are due."""
LISTED = 100
"""The number of due runs that it asks for at once."""
AT_ONCE = 10
"""The number of due runs that it takes over at once: each takes many requests to the journal."""


class DueRuns(ABC):
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
