"""Appointments: the moments at which a server continues runs by itself.

The time of a question runs out, or a provider has said when it is worth asking again. All moments
are in one queue, soonest first. They come from the records of the journal: those that existed when
the server began, and those that any process writes later.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from heapq import heappop, heappush
from typing import NamedTuple

from loopkit.agents.not_runnable import NotRunnable
from loopkit.document.problems import ProblemsFound
from loopkit.drive.archive import read_record
from loopkit.drive.stored_event import Stored
from loopkit.engine.events import ENDS, ChildEnded, Decided, Event, Replied, Suspended, Waiting
from loopkit.engine.state import RunState
from loopkit.journal.errors import JournalError, RunUnreadable, UnknownRun
from loopkit.journal.journal import Journal
from loopkit.journal.records import Place
from loopkit.language import ChildrenState, Machine
from loopkit.language.agents.agent import CalledAgent
from loopkit.serving.host import Host, bug_text
from loopkit.text.run_ids import is_child, root_of

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
        """Keep appointments until stopped."""
        begun = False
        while not self._stops.is_set():
            pause_s = POLL_S
            # Requests report that the journal is locked or full; here it is tried again.
            with suppress(JournalError):
                if not begun:
                    await self.begin()
                    begun = True
                await self.look()
                pause_s = self._seconds_to_next()
            with suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._stops.wait()

    def stop(self) -> None:
        """Continue no more runs."""
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
                        self._take_in(one.run, read_record(one.run, one.record).event)
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

    def _seconds_to_next(self) -> float:
        if not self._queue:
            return POLL_S
        return min(max(self._queue[0][0] - self._clock(), 0.0), POLL_S)

    def _take_in(self, run: str, event: Event) -> None:
        if isinstance(event, Waiting) and event.expires_at is not None:
            self._add(Moment(event.expires_at, run, event.question))
        elif isinstance(event, Suspended) and event.resume_at is not None and not is_child(run):
            self._add(Moment(event.resume_at, run, ""))

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
        rows = await app.journal.runs(run=root)
        if any(row.is_driven for row in rows):
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
    """The moment at which a run in this state has to be continued; None if there is none."""
    question, suspended = state.question, state.suspended
    if state.status == "waiting" and question is not None and question.expires_at is not None:
        return Moment(question.expires_at, state.run, question.question)
    if state.status == "suspended" and suspended is not None and suspended.resume_at is not None:
        # A child continues with its parent, which is suspended with it.
        return None if is_child(state.run) else Moment(suspended.resume_at, state.run, "")
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
