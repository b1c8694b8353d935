"""Playing a behaviour with the real driver, until the run ends, waits or is suspended."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from loopkit.agents.scripted import Crashed
from loopkit.app import App, Script
from loopkit.drive.active import ActiveRun
from loopkit.drive.breaker import Breakers
from loopkit.drive.states.human import AnswerRefused
from loopkit.engine.events import Event
from loopkit.engine.macrostep import Engine
from loopkit.engine.state import RunState
from loopkit.journal.memory import MemoryJournal
from loopkit.language.load import Loaded, digest_of
from loopkit.scenario import read_resolved
from loopkit.testing.clock import PlayedClock
from loopkit.testing.playbill import Playbill
from loopkit.testing.playing import project_folder
from loopkit.testing.properties.company import Company
from loopkit.testing.properties.cut import Cut, CutClaim, CutOff
from loopkit.testing.properties.library import HypothesisException


@dataclass(frozen=True)
class Performance:
    """What came of one run."""

    state: RunState
    events: tuple[Event, ...]
    company: Company
    cut: Cut
    error: Exception | None = None
    """What ended it that nothing is prepared for."""
    doubted: tuple[str, ...] = ()
    """The calls that were open where its process ended."""


@dataclass(frozen=True)
class Theatre:
    """A machine that is played."""

    loaded: Loaded
    bill: Playbill
    engine: Engine

    async def play(self, inputs: Mapping[str, Any], company: Company, cut: Cut) -> Performance:
        with project_folder() as folder:
            clock = PlayedClock()
            journal = MemoryJournal(clock.now)
            engines = {self.loaded.digest: self.engine}
            async with App(journal, folder=folder, clock=clock, engines=engines) as app:
                return await self._driven(app, inputs, company, cut)

    async def _driven(
        self, app: App, inputs: Mapping[str, Any], company: Company, cut: Cut
    ) -> Performance:
        active = await app.start(self.loaded, inputs, self._script)
        # Before it is stored a process may die without anything being there to go on with.
        await active.append()
        run, doubted, error = active.state.run, tuple[str, ...](), None
        is_over = False
        while not is_over:
            try:
                await _drive(app, active, company, cut)
                is_over = True
            except AnswerRefused:
                is_over = True
            except Crashed:
                active = await _resumed(app, run)
            except CutOff:
                cut.revive()
                state = await app.state_of(run)
                doubted = tuple(state.open_calls)
                company.retried = doubted
                is_over = state.status not in ("running", "waiting")
                if not is_over:
                    active = await _resumed(app, run)
            except HypothesisException:
                # The behaviour is given up, because nothing could be drawn for it.
                raise
            except Exception as broken:  # noqa: BLE001 - whatever it is, a property is broken
                error, is_over = broken, True
        events = tuple(stored.event for stored in await app.events(run))
        return Performance(await app.state_of(run), events, company, cut, error, doubted)

    @property
    def _script(self) -> Script:
        """A scenario with a part for everybody, so that nobody real is asked."""
        machine = self.bill.machine
        parts = {"agents": machine.agents, "commands": self.bill.commands}
        played = {part: {name: list[str]() for name in names} for part, names in parts.items()}
        resolved = json.dumps({"scenario": 1, **played})
        return Script(read_resolved(resolved), resolved, digest_of(resolved))


async def _drive(app: App, active: ActiveRun, company: Company, cut: Cut) -> None:
    company.join(active, cut)
    active.claim = CutClaim(active.claim, cut)
    await app.drive(active)


async def _resumed(app: App, run: str) -> ActiveRun:
    """The run taken up by another process, which knows nothing of the providers."""
    app.breakers = Breakers()
    return await app.resume(run)
