"""The active run: its state, changed only by appending events."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from loopkit.agents.port import AgentPort, Person, PlayedCommands
from loopkit.drive.breaker import Breakers
from loopkit.engine.events import Event, write_event
from loopkit.engine.macrostep import Engine, Macrostep
from loopkit.engine.state import RunState, apply
from loopkit.journal import Claim, NewRecord
from loopkit.journal.storable import refuse_text
from loopkit.machine.program import Program
from loopkit.outside.redaction import Redact


class Clock(Protocol):
    """Time, so that tests need not wait for it."""

    def now(self) -> float:
        """Unix time in seconds."""
        ...

    def monotonic(self) -> float: ...

    async def sleep(self, seconds: float) -> None: ...


@dataclass(frozen=True, slots=True)
class Stored:
    """An event as the journal keeps it."""

    seq: int
    epoch: int
    at: float
    """Unix time."""
    event: Event


Listener = Callable[[Stored], None]


class Stopped(Exception):
    """The run was asked to stop while it paused, with nothing in flight."""


@dataclass
class ActiveRun:
    """One run in the hands of this process."""

    program: Program
    engine: Engine
    claim: Claim
    clock: Clock
    agents: Mapping[str, AgentPort]
    commands: PlayedCommands
    person: Person
    breakers: Breakers = field(default_factory=Breakers)
    """What all runs of this process know of the providers."""
    redact: Redact = str
    """Takes the environment's secrets out of what agents and commands say."""
    listeners: Sequence[Listener] = ()
    state: RunState = field(default_factory=RunState)
    stopping: bool = False
    """Set by the first Ctrl-C: finish the step, then stop."""
    _stop: asyncio.Event = field(default_factory=asyncio.Event)
    _staged: list[tuple[Event, str]] = field(default_factory=list)
    """Events with their stored form."""
    _append_lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    reserving: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held from looking at the limits to the intent that reserves in them."""

    @cached_property
    def folder(self) -> Path:
        """The project folder, in which workspaces lie."""
        return Path(self.state.folder)

    @property
    def limits(self) -> Mapping[str, Any]:
        """The limits in force: the machine's, and those raised since."""
        return {**self.program.limits, **self.state.limits}

    def stop(self) -> None:
        """Stop after the step in hand, or at once where it only waits for its next try."""
        self.stopping = True
        self._stop.set()

    async def pause(self, seconds: float) -> None:
        """Wait with nothing in flight; raises Stopped as soon as the run is asked to stop."""
        waits = {
            asyncio.ensure_future(self.clock.sleep(seconds)),
            asyncio.ensure_future(self._stop.wait()),
        }
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
        if self._stop.is_set():
            raise Stopped

    def stage(self, *events: Event) -> None:
        """Take events in; they are written with the next append, and nothing is spent before.

        Raises JournalError, and takes nothing in, where one of them can't be stored.
        """
        self._stage(events)
        for event in events:
            apply(self.state, event)

    def take(self, step: Macrostep) -> None:
        """Go on behind a macrostep; it is staged as events are."""
        self._stage(step.events)
        self.state = step.run

    def _stage(self, events: Sequence[Event]) -> None:
        written = [(event, write_event(event)) for event in events]
        for event, data in written:
            refuse_text(f"the record `{event.type}`", data)
        self._staged.extend(written)

    async def append(self, *events: Event, consumes: Sequence[str] = ()) -> None:
        """Make events durable, together with those staged before."""
        async with self._append_lock:
            self.stage(*events)
            batch, self._staged = self._staged, []
            if not batch and not consumes:
                return
            at = self.clock.now()
            records = [NewRecord(event.type, at, data) for event, data in batch]
            # Nothing comes after the end: the same commit lets go of the run.
            seq = await self.claim.append(records, consumes, releases=self.state.is_over)
        first = seq - len(batch) + 1
        for number, (event, _) in enumerate(batch, first):
            self.tell(Stored(number, self.claim.epoch, at, event))

    def tell(self, stored: Stored) -> None:
        """Show an event that is durable to whoever watches."""
        for listen in self.listeners:
            listen(stored)
