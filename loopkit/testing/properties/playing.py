"""Playing a behaviour with the real driver, until the run ends, waits or is suspended."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from loopkit.agents.port import Crashed
from loopkit.app import App, Script
from loopkit.drive.active import ActiveRun
from loopkit.drive.answer_refused import AnswerRefused
from loopkit.drive.breaker import Breakers
from loopkit.engine.events import ChildStarted, Event
from loopkit.engine.macrostep import Engine
from loopkit.engine.state import RunState
from loopkit.journal.journal import open_journal
from loopkit.language.load import Loaded, digest_of
from loopkit.scenario import read_resolved
from loopkit.testing.clock import PlayedClock
from loopkit.testing.family import FamilyRun, family_of
from loopkit.testing.playbill import Playbill
from loopkit.testing.playing import complete, project_folder
from loopkit.testing.properties.company import Company
from loopkit.testing.properties.cut import Cut, CutClaim, CutOff
from loopkit.testing.properties.library import HypothesisException


@dataclass(frozen=True)
class Performance:
    """One played run."""

    state: RunState
    events: tuple[Event, ...]
    company: Company
    cut: Cut
    error: Exception | None = None
    """The unforeseen exception that ended it, if any."""
    doubted: tuple[str, ...] = ()
    """The calls that were open where its process ended."""
    children: tuple[tuple[str, Performance], ...] = ()
    """The children that it began, each with its state."""


@dataclass(frozen=True)
class Theatre:
    """A machine that is played."""

    loaded: Loaded
    bill: Playbill
    engine: Engine

    async def play(self, inputs: Mapping[str, Any], company: Company, cut: Cut) -> Performance:
        with project_folder() as folder:
            clock = PlayedClock()
            journal = open_journal(None, clock=clock.now)
            engines = {self.loaded.digest: self.engine}
            async with Troupe(journal, folder=folder, clock=clock, engines=engines) as app:
                app.cut = cut
                return await self._drive(app, inputs, company, cut)

    async def _drive(
        self, app: Troupe, inputs: Mapping[str, Any], company: Company, cut: Cut
    ) -> Performance:
        active = await app.start(self.loaded, inputs, self._script)
        # Stored first: if the process died before that, there would be nothing to go on with.
        await active.append()
        run, doubted, error = active.state.run, tuple[str, ...](), None
        is_over = False
        while not is_over:
            try:
                app.let_play(active, company)
                await app.drive(active)
                is_over = True
            except AnswerRefused:
                is_over = True
            except Crashed:
                active = await _resume(app, run)
            except CutOff:
                cut.revive()
                state = await app.state_of(run)
                doubted = tuple(_retry(company, await family_of(app, run)))
                is_over = state.status not in ("running", "waiting")
                if not is_over:
                    active = await _resume(app, run)
            except HypothesisException:
                # The behaviour is given up, because nothing could be drawn for it.
                raise
            except Exception as broken:  # noqa: BLE001 - whatever it is, a property is broken
                error, is_over = broken, True
        played = _performance(await family_of(app, run), company, cut)
        return replace(played, error=error, doubted=doubted)

    @property
    def _script(self) -> Script:
        """A scenario with a part for every agent and command, so that nothing real is called."""
        resolved = json.dumps(complete({"scenario": 1}, self.bill))
        return Script(read_resolved(resolved), resolved, digest_of(resolved))


class Troupe(App):
    """An app with an improvising company, also in children."""

    cut: Cut
    """Where its process ends."""

    def let_play(self, active: ActiveRun, company: Company) -> None:
        """Let a company take every part of a run."""
        self._companies[active.claim.run] = company
        company.join(active, self.cut)
        active.claim = CutClaim(active.claim, self.cut)

    @cached_property
    def _companies(self) -> dict[str, Company]:
        return {}

    async def child(self, parent: ActiveRun, started: ChildStarted) -> ActiveRun | RunState:
        self.cut.refuse_dead()
        active = await super().child(parent, started)
        if isinstance(active, ActiveRun):
            name = (started.state, started.key, started.visit)
            company = self._companies[parent.claim.run].of_child(name, active.program)
            self.let_play(active, company)
        return active


def _retry(company: Company, run: FamilyRun) -> Iterator[str]:
    """Let the person have the open calls of a family made again; yield their keys."""
    company.retried = tuple(run.state.open_calls)
    yield from company.retried
    for child in run.children:
        if child[:3] in company.children:
            yield from _retry(company.children[child[:3]], child.run)


def _performance(run: FamilyRun, company: Company, cut: Cut) -> Performance:
    children = [
        (child.state, _performance(child.run, company.children[child[:3]], cut))
        for child in run.children
        if child[:3] in company.children
    ]
    return Performance(run.state, tuple(run.plain_events), company, cut, children=tuple(children))


async def _resume(app: App, run: str) -> ActiveRun:
    """Take the run up in another process, which knows nothing of the providers."""
    app.breakers = Breakers()
    return await app.resume(run)
