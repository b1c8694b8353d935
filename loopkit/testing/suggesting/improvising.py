"""Agents, commands and a person who answer so that a run goes a wanted way, step by step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from loopkit.agents.port import Reply, Request
from loopkit.agents.scripted import PlayedResults, ScriptedAgent, Sleep
from loopkit.drive.active import ActiveRun
from loopkit.engine.events import HumanAnswer, Usage
from loopkit.engine.ledger import normalised
from loopkit.engine.macrostep import Engine
from loopkit.engine.state import RunState
from loopkit.language import HumanState, ValidateState
from loopkit.machine.graph import artifact_of
from loopkit.outside.processes import CommandResult
from loopkit.scenario import Played, PlayedCommand
from loopkit.testing.suggesting.author import Writing
from loopkit.testing.suggesting.lines import Lines, answer
from loopkit.testing.suggesting.pool import Pool
from loopkit.testing.suggesting.said import Call, Said
from loopkit.testing.suggesting.wants import Want


class Astray(Exception):
    """The run took another edge than the one that is wanted; `step` counts from 0."""

    def __init__(self, step: int, message: str) -> None:
        super().__init__(message)
        self.step = step


@dataclass
class Company:
    """Everybody who is asked in one run."""

    wants: Sequence[Want]
    pool: Pool
    said: Said = field(default_factory=Said)

    def join(self, active: ActiveRun) -> None:
        """Take every part of a run."""
        sleep = active.clock.sleep
        active.agents = {name: _Agent(name, self, active, sleep) for name in active.agents}
        active.commands = _Commands(self, active)
        active.person = _Person(self)

    def want(self, run: RunState) -> Want:
        """What the work in hand should come to; raises Astray."""
        self.follow(run)
        if len(run.route) >= len(self.wants):
            raise Astray(len(run.route) - 1, "the run goes on behind the end of the way")
        return self.wants[len(run.route)]

    def follow(self, run: RunState) -> None:
        """Raise Astray where a run took another edge than it should."""
        for step, (taken, want) in enumerate(zip(run.route, self.wants, strict=False)):
            if taken != (wanted := want.step.edge):
                instead = f"instead of {wanted}" if wanted else "where it should stop"
                raise Astray(step, f"`{want.step.source}` takes {taken} {instead}")

    def writing(self, active: ActiveRun, known: Sequence[str]) -> Writing:
        """The attempt of the author whose turn it is."""
        run = active.state
        artifact = artifact_of(active.program.machine, run.state) or run.state
        judged = [state.judged for state in run.rounds if state.judged.name == artifact]
        before = tuple(dict.fromkeys(normalised(version) for version in judged))
        ahead = self._ahead(active, artifact)
        return Writing(active.program, run, run.state, (self.want(run),), ahead, known, before)

    def _ahead(self, active: ActiveRun, artifact: str) -> list[Want]:
        """The reports on an artifact before it is written anew."""
        found: list[Want] = []
        for want in self.wants[len(active.state.route) + 1 :]:
            name = want.step.source
            state = active.program.machine.states[name]
            if artifact_of(active.program.machine, name) == artifact:
                break
            if isinstance(state, ValidateState) and state.validate_ == artifact:
                found.append(want)
        return found


class _Agent:
    """One agent, who says what leads on."""

    def __init__(self, name: str, company: Company, active: ActiveRun, sleep: Sleep) -> None:
        self._name = name
        self._company = company
        self._active = active
        self._sleep = sleep

    async def ready(self) -> None:
        return None

    def quote(self, request: Request) -> Usage:
        return self._part(request).quote(_first(request))

    async def ask(self, request: Request) -> Reply:
        return await self._part(request).ask(_first(request))

    def _part(self, request: Request) -> ScriptedAgent:
        call = Played.model_validate(self._call(request))
        return ScriptedAgent(self._name, ((call,),), self._sleep)

    def _call(self, request: Request) -> Call:
        """The call that is made now: a new one, or the one that was quoted."""
        company = self._company
        key = (request.agent, request.place, request.place_index)
        calls = company.said.replies.setdefault(key, [])
        if len(calls) <= request.call_index:
            known = company.pool.replies.get(request.agent, ())
            lines = Lines(self._active, company.want(self._active.state))
            calls.append(lines.of(request, company.writing, known))
        return calls[request.call_index]


def _first(request: Request) -> Request:
    return replace(request, task_index=0, place_index=0, call_index=0, lost_index=0)


@dataclass(frozen=True)
class _Commands:
    """The commands, which end as leads on."""

    company: Company
    active: ActiveRun

    def result(
        self, place: str, index: int, folder: Path | None, earlier: int = 0
    ) -> CommandResult | None:
        results = self.company.said.results.setdefault(place, {})
        if index not in results:
            lines = Lines(self.active, self.company.want(self.active.state))
            results[index] = lines.of_command(place, self.company.writing)
        played = PlayedCommand.model_validate(results[index])
        return PlayedResults({place: (played,)}).result(place, 0, folder, earlier)


@dataclass(frozen=True)
class _Person:
    """The person, who answers what leads on."""

    company: Company

    async def answer(self, engine: Engine, run: RunState) -> HumanAnswer | None:
        state = engine.program.machine.states[run.state]
        assert isinstance(state, HumanState)
        want = self.company.want(run)
        given = self.company.said.answers.setdefault(run.state, [])
        given.append(answer(engine, run, state, want, len(given) + 1))
        return HumanAnswer(**given[-1], by="script")
