"""Improvised agents, commands and a person: they always answer, and repeat answers exactly."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from loopkit.agents.port import Reply, Request
from loopkit.agents.scripted import PlayedResults, ScriptedAgent, ScriptedPerson
from loopkit.drive.active import ActiveRun
from loopkit.drive.surroundings import NobodyThere
from loopkit.engine.events import HumanAnswer, Usage
from loopkit.engine.macrostep import Engine
from loopkit.engine.state import RunState
from loopkit.machine.program import Program
from loopkit.outside.processes import CommandResult
from loopkit.scenario import Played, PlayedAnswer, PlayedCommand, call_at
from loopkit.testing.by_state import ChildName
from loopkit.testing.played_parts import Call, PlayedParts
from loopkit.testing.properties.cut import Cut
from loopkit.testing.properties.lines import Draw, Lines


@dataclass(frozen=True, slots=True)
class MadeCall:
    """A call that was made."""

    key: str
    call_index: int
    """How many calls for the same work were settled before."""
    tokens: int
    cost_usd: float

    is_billed: bool
    """Whether an agent was called; work from outside is not a call."""

    @property
    def work(self) -> tuple[str, int]:
        """The work it was made for: once it is settled, no other call may be made for that."""
        return self.key.rpartition(":")[0], self.call_index


@dataclass
class Company:
    """The agents, commands and person of one run; each reply is drawn when it is first needed."""

    lines: Lines
    draw: Draw
    said: PlayedParts
    answers: dict[tuple[str, int], Call | None] = field(default_factory=dict)
    """The answers by state and visit, from 0."""
    children: dict[ChildName, Company] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.made: list[MadeCall] = []
        self.run_commands: list[tuple[str, int]] = []
        self.retried: Collection[str] = ()
        """The calls in doubt that the person has made again."""

    def again(self) -> Company:
        """The same company, for another run."""
        children = {name: company.again() for name, company in self.children.items()}
        return Company(self.lines, self.draw, self.said, self.answers, children)

    def of_child(self, name: ChildName, program: Program) -> Company:
        """The company of a child."""
        if name not in self.children:
            said = self.said.children.setdefault(name, PlayedParts())
            self.children[name] = Company(Lines(program), self.draw, said)
        return self.children[name]

    @property
    def family(self) -> Iterator[Company]:
        """The companies of a run and of all its children."""
        yield self
        for company in self.children.values():
            yield from company.family

    @property
    def made_by_family(self) -> list[MadeCall]:
        """The calls of a run and of all its children."""
        return [made for company in self.family for made in company.made]

    def join(self, active: ActiveRun, cut: Cut) -> None:
        """Take every part of a run."""
        active.agents = {name: _Agent(name, self, active, cut) for name in active.agents}
        active.commands = _Commands(self, active, cut)
        active.person = _Person(self, active)


@dataclass(frozen=True)
class _Agent:
    name: str
    company: Company
    active: ActiveRun
    cut: Cut

    async def ready(self) -> None:
        return None

    def quote(self, request: Request) -> Usage:
        calls, _ = self._calls(request)
        return self._part(calls).quote(_first(request))

    async def ask(self, request: Request) -> Reply:
        self.cut.refuse_dead()
        calls, position = self._calls(request)
        played = calls[position]
        cost_usd = played.cost_usd or 0.0
        is_billed = request.role != "outside"
        made = MadeCall(request.key, request.call_index, played.usage.tokens, cost_usd, is_billed)
        self.company.made.append(made)
        return await self._part(calls).ask(_first(request))

    def _part(self, calls: tuple[Played, ...]) -> ScriptedAgent:
        without = self.active.program.machine.agents[self.name].without_tools
        sleep = self.active.clock.sleep
        return ScriptedAgent(self.name, (calls,), sleep, without_tools=without)

    def _calls(self, request: Request) -> tuple[tuple[Played, ...], int]:
        """The calls of this work so far, and the position of the one that is made now."""
        company = self.company
        key = (request.agent, request.place, request.place_index)
        written = company.said.replies.setdefault(key, [])
        calls = tuple(Played.model_validate(call) for call in written)
        while (at := call_at(calls, request.call_index, request.lost_index)) >= len(calls):
            written.append(company.lines.call(company.draw, self.active.state, request))
            calls = (*calls, Played.model_validate(written[-1]))
        return calls, at


def _first(request: Request) -> Request:
    return request.replace(task_index=0, place_index=0)


@dataclass(frozen=True)
class _Commands:
    company: Company
    active: ActiveRun
    cut: Cut

    def result(
        self, place: str, index: int, folder: Path | None, earlier: int = 0
    ) -> CommandResult | None:
        self.cut.refuse_dead()
        company = self.company
        if place in self.active.program.machine.states:
            company.run_commands.append((place, index))
        results = company.said.results.setdefault(place, {})
        tries = [] if index not in results else [*results[index].get("earlier", ()), results[index]]
        while len(tries) <= earlier:
            tries.append(company.lines.result(company.draw, self.active.state, place))
        results[index] = _with_earlier(tries)
        played = PlayedCommand.model_validate(results[index])
        return PlayedResults({place: (played,)}).result(place, 0, folder, earlier)


def _with_earlier(tries: list[Call]) -> Call:
    bare = [{k: v for k, v in one.items() if k != "earlier"} for one in tries]
    return {**bare[-1], "earlier": bare[:-1]} if len(bare) > 1 else bare[0]


@dataclass
class _Person:
    company: Company
    active: ActiveRun
    waited_for: set[tuple[str, int]] = field(default_factory=set)

    async def answer(self, engine: Engine, run: RunState) -> HumanAnswer | None:
        if run.question is not None and run.question.call is not None:
            is_retried = run.question.call in self.company.retried
            return HumanAnswer(choice="retry") if is_retried else None
        visit = run.visits[run.state] - 1
        said = self._draw_answer(engine, run, visit)
        if said is None:
            return None
        played = PlayedAnswer.model_validate(said)
        scripted = ScriptedPerson(
            {run.state: (played,) * (visit + 1)}, NobodyThere(), self.active.clock
        )
        return await scripted.answer(engine, run)

    def _draw_answer(self, engine: Engine, run: RunState, visit: int) -> Call | None:
        company, key = self.company, (run.state, visit)
        if key not in company.answers:
            answer = company.lines.answer(company.draw, engine, run)
            company.answers[key] = answer
            if answer is not None:
                company.said.answers.setdefault(run.state, []).append(answer)
        return company.answers[key]
