"""The active run: its state, changed only by appending events."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import repeat
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

from loopkit.agents.port import AgentPort, Person, PlayedCommands
from loopkit.drive.breaker import Breakers
from loopkit.drive.line import Line
from loopkit.drive.occupancy import Occupancy
from loopkit.drive.servers import Servers
from loopkit.engine.changes import apply
from loopkit.engine.events import ChildStarted, Event, Suspended, Usage, Waiting
from loopkit.engine.macrostep import Engine, Macrostep
from loopkit.engine.records import encode
from loopkit.engine.state import ENDED, RunState
from loopkit.journal import (
    SPENDING,
    Claim,
    JournalError,
    JournalUnusable,
    MessageWaits,
    NewRecord,
)
from loopkit.journal.contents import Contents
from loopkit.journal.storable import MAX_TEXT_BYTES, refuse_text
from loopkit.machine.program import Program
from loopkit.outside.redaction import Redact
from loopkit.scenario import Scenario

if TYPE_CHECKING:
    from loopkit.drive.account import Account
    from loopkit.drive.gate import Gate

_TYPE = attrgetter("type")
_path = lru_cache(maxsize=64)(Path)
"""The same path for all runs of a folder, because making one takes as long as storing an event."""


class Clock(Protocol):
    """Time, so that tests need not wait for it."""

    def now(self) -> float:
        """Unix time in seconds."""
        ...

    def monotonic(self) -> float: ...

    async def sleep(self, seconds: float) -> None: ...


class Stored(NamedTuple):
    """An event as the journal keeps it."""

    seq: int
    epoch: int
    at: float
    """Unix time."""
    event: Event


class OpenQuestion(NamedTuple):
    """A question that somebody has to answer."""

    place: str
    """Where the run that asks belongs in the family; empty for the one that was looked at."""
    state: RunState
    """The run that asks."""
    question: Waiting


Listener = Callable[[Stored], None]
Mark: TypeAlias = tuple[RunState, int]
"""A state, and how many events had been staged then."""
History: TypeAlias = Callable[[str], Awaitable[Sequence[Stored]]]
"""Reads what has happened in a run so far; nothing of one that is not stored yet."""


class Observer(Protocol):
    """Watches all runs of an app, children among them."""

    async def listener(self, active: ActiveRun, history: History) -> Listener:
        """Whom to tell what happens in a run from now on."""
        ...

    async def close(self) -> None:
        """Pass on what is left; nothing happens any more."""
        ...


class Stopped(Exception):
    """The run was asked to stop while it paused, with nothing in flight."""


class ChildrenStopped(Exception):
    """Children have stopped before their end, and the run can't go on without them."""

    def __init__(self, suspended: Suspended) -> None:
        super().__init__(suspended.message)
        self.suspended = suspended


class ChildRuns(Protocol):
    """The runs of other machines that runs begin: their children."""

    async def child(self, parent: ActiveRun, started: ChildStarted) -> ActiveRun | RunState:
        """A child, begun or taken up where it stopped, to be driven; its state where it is over."""
        ...

    async def drive(self, active: ActiveRun) -> RunState:
        """Advance a run and let go of it; the state in which it stopped."""
        ...

    async def commitment(self, run: str) -> Usage:
        """What a run and all its children have committed; nothing where it has not begun."""
        ...

    async def commitment_of(self, state: RunState) -> Usage:
        """The same of a run in a certain state."""
        ...

    async def usage_of(self, state: RunState) -> Usage:
        """What a run has spent, and its children that it does not count because they go on."""
        ...

    async def questions(self, run: str) -> list[OpenQuestion]:
        """What a run and its children ask now, in the order of their lists."""
        ...

    async def cancel_child(self, run: str, reason: str) -> RunState | None:
        """End a child and its own children; its state then, none where it has not begun."""
        ...


class Alarm(Protocol):
    """Listens for the alert of a run, and tells of it."""

    def hear(self, stored: Stored) -> None: ...

    async def fault(self) -> str:
        """Wait until it is told; why that failed, empty where it did not."""
        ...


@dataclass(slots=True)
class ActiveRun:
    """One run in the hands of this process."""

    program: Program
    engine: Engine
    claim: Claim
    clock: Clock
    agents: Mapping[str, AgentPort]
    commands: PlayedCommands
    person: Person
    children: ChildRuns
    scenario: Scenario | None = None
    """What plays, where one does."""
    breakers: Breakers = field(default_factory=Breakers)
    """What all runs of this process know of the providers."""
    redact: Redact = str
    """Takes the environment's secrets out of what agents and commands say."""
    listeners: Sequence[Listener] = ()
    asked_before: str = ""
    """The question with which the run was taken over; empty where it did not wait."""
    notify: Sequence[str] = ()
    """The program to be started when the run stops; empty for none."""
    alarm: Alarm | None = None
    """Tells of an alert while the run goes on."""
    state: RunState = field(default_factory=RunState)
    stopping: bool = False
    """Set by the first Ctrl-C: finish the step, then stop."""
    line: Line = field(default_factory=Line)
    """The calls of this run that are made or wait for room."""
    contents: Contents = field(default_factory=Contents)
    """The files of its folders, version by version."""
    occupancy: Occupancy = field(default_factory=Occupancy)
    """The workspaces that runs of other apps have to leave alone."""
    servers: Servers = field(default_factory=Servers)
    """The MCP servers with which it is connected."""
    account: Account | None = None
    """Limits that it shares with other runs."""
    may_merge: Callable[[], bool] = lambda: True
    """Whether it is its turn to merge what it has made."""
    trees_above: Mapping[str, str] = field(default_factory=dict)
    """By workspace: the trees of runs above it, in which it works as they do."""
    gate: Gate | None = None
    """Which states of it and of its siblings may work at the same time."""
    _stops: asyncio.Event | None = None
    """Set when the run is asked to stop, from the first pause on."""
    _isolating: asyncio.Lock | None = None
    keeps_texts: bool = True
    """Whether its journal keeps records as texts."""
    _staged: list[Event] = field(default_factory=list)
    """What the next append writes."""
    _texts: list[str] = field(default_factory=list)
    """The same as texts, where the journal keeps texts."""

    @property
    def folder(self) -> Path:
        """The project folder, in which workspaces lie."""
        return _path(self.state.folder)

    @property
    def isolating(self) -> asyncio.Lock:
        """Held while a tree of its own is made."""
        self._isolating = self._isolating or asyncio.Lock()
        return self._isolating

    @property
    def limits(self) -> Mapping[str, Any]:
        """What is limited, and to how much: by the machine, and as raised since."""
        raised = self.state.limits
        return {**self.program.limits, **raised} if raised else self.program.limits

    def stop(self) -> None:
        """Stop after the step in hand, or at once where it only waits for its next try."""
        self.stopping = True
        if self._stops is not None:
            self._stops.set()

    async def wait_for_stop(self) -> None:
        """Wait until the run is asked to stop."""
        if not self.stopping:
            self._stops = self._stops or asyncio.Event()
            await self._stops.wait()

    async def pause(self, seconds: float) -> None:
        """Let time pass with nothing in flight; raises Stopped as `wait_for` does."""
        await self.wait_for(lambda: self.clock.sleep(seconds))

    async def wait_for(self, wait: Callable[[], Awaitable[object]]) -> None:
        """Wait with nothing in flight; raises Stopped as soon as the run is asked to stop."""
        if self.stopping:
            raise Stopped
        self._stops = self._stops or asyncio.Event()
        waits = {asyncio.ensure_future(wait()), asyncio.ensure_future(self._stops.wait())}
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for waiting in waits:
                waiting.cancel()
        if self._stops.is_set():
            raise Stopped

    def stage(self, *events: Event) -> None:
        """Take events in; they are written with the next append, and nothing is spent before.

        Raises JournalError, and takes nothing in, where one of them can't be stored.
        """
        if self.keeps_texts:
            self._texts += _as_texts(events)
        self._staged += events
        for event in events:
            apply(self.state, event)

    def take(self, step: Macrostep) -> None:
        """Go on behind a macrostep; it is staged as events are."""
        if self.keeps_texts:
            self._texts += _as_texts(step.events)
        self._staged += step.events
        self.state = step.run

    def mark(self) -> Mark:
        """Where the run stands, before what may have to be taken back."""
        return self.state, len(self._staged)

    def roll_back(self, mark: Mark) -> None:
        """Forget what was taken in since, of which nothing may have been written."""
        state, staged = mark
        self.state = state.copy()
        del self._staged[staged:], self._texts[staged:]

    async def append(
        self, *events: Event, consumes: Sequence[str] = (), unless: Sequence[str] = ()
    ) -> None:
        """Make events durable, together with those staged before.

        Raises MessageWaits, and writes nothing, where messages of the kinds `unless` wait:
        everything stays staged.
        """
        if events:
            self.stage(*events)
        batch, texts = self._staged, self._texts
        if not batch and not consumes:
            return
        at = self.clock.now()
        data: Sequence[str | Event] = texts if self.keeps_texts else batch
        self._staged, self._texts = [], []
        records = list(map(NewRecord, map(_TYPE, batch), repeat(at), data))
        # Nothing comes after the end: the same commit lets go of the run.
        over = self.state.status in ENDED
        try:
            seq = await self.claim.append(records, consumes, releases=over, unless=unless)
        except MessageWaits:
            self._staged, self._texts = batch + self._staged, texts + self._texts
            raise
        except JournalUnusable:
            # Without the next call there may be room for what was paid before it.
            paid = [record for record in records if record.type != SPENDING]
            if self.claim.seq and 0 < len(paid) < len(records):
                with suppress(JournalError):
                    await self.claim.append(paid, consumes, unless=unless)
            raise
        if self.listeners:
            for number, event in enumerate(batch, seq - len(batch) + 1):
                self.tell_listeners(Stored(number, self.claim.epoch, at, event))

    def tell_listeners(self, stored: Stored) -> None:
        """Show an event that is durable to whoever watches."""
        for listen in self.listeners:
            listen(stored)


def _as_texts(events: Iterable[Event]) -> list[str]:
    """Events as the journal keeps them; raises JournalError where one is too long.

    What is never written as text has no size: to measure it would cost as much as to write it, and
    what is in memory already takes no more.
    """
    written: list[str] = []
    for event in events:
        data = encode(event)
        if len(data) > MAX_TEXT_BYTES:
            refuse_text(f"the record `{event.type}`", data.decode())
        written.append(data.decode())
    return written
