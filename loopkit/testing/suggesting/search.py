"""Suggestions: for each uncovered goal a case that reaches it, or why none can."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from loopkit.document import inline, read, to_yaml
from loopkit.language.load import Source
from loopkit.machine.program import Program, flat_facts
from loopkit.proof.bounds import Analysis, explore
from loopkit.scenario import Case, LoadedScenario, Scenario
from loopkit.testing.coverage import Reached, goals_of, impossible_goals
from loopkit.testing.coverage.goals import Goal
from loopkit.testing.inputs import inputs_of, shared_inputs
from loopkit.testing.playing import play
from loopkit.testing.suggesting.causes import NoCause
from loopkit.testing.suggesting.inputs import Inputs
from loopkit.testing.suggesting.naming import description_of, name_of
from loopkit.testing.suggesting.parts import Parts
from loopkit.testing.suggesting.ways import Way, Ways
from loopkit.testing.suites import SUFFIX, Machines, Suite

MOST_CONFIGURATIONS = 20_000
CASE = "suggested"
MOST_WAYS = 12
"""The most ways to one goal that are tried."""


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A case with a known way, in which a person still has to write the texts."""

    name: str
    case: dict[str, Any]
    """The case as a scenario file has it."""
    goals: tuple[Goal, ...]
    """The goals that it covers, and that no case before it does."""


@dataclass
class Suggestions:
    """The suggestions for one machine."""

    suite: Suite
    """The suite to which the cases belong."""
    cases: list[Suggestion] = field(default_factory=list)
    failed: list[tuple[Goal, str]] = field(default_factory=list)
    """The goals for which there is no case, each with the reason."""

    @property
    def as_cases(self) -> str:
        """The cases as YAML, indented as below `cases:`."""
        return "\n".join(f"  {inline(one.name)}:\n{to_yaml(one.case, 4)}" for one in self.cases)

    @property
    def as_file(self) -> str:
        """A scenario file with these cases, for the folder of its machine."""
        machine = Path(self.suite.machine.source.document.file).name
        head = to_yaml({"scenario": 1, "machine": machine})
        return f"{head}\ncases:\n{self.as_cases}"


def empty_suite(machine: Path, machines: Machines) -> Suite:
    """A suite without cases for a machine file that has none yet; raises ProblemsFound."""
    loaded = machines.machine(machine)
    path = machine.with_name(f"{machine.stem}{SUFFIX}")
    source = Source(read("scenario: 1", str(path)), {})
    written = LoadedScenario(Scenario(scenario=1), source, path.parent, {"scenario": 1})
    return Suite(path, written, loaded, {}, machines)


def suggest(
    suite: Suite, covered: Iterable[Reached], *, most: int = MOST_CONFIGURATIONS
) -> Suggestions:
    """Cases for all goals of a suite's machine that the runs of `covered` did not reach.

    A goal that no run of the machine can reach is left out. The farthest goals come first, because
    the way there may reach others. At most `most` configurations are examined.
    """
    return _Search(suite, list(covered), most).suggestions()


class _Search:
    def __init__(self, suite: Suite, covered: Collection[Reached], most: int) -> None:
        machine = suite.machine
        analysis = Analysis.of_machine(machine.machine)
        goals = goals_of(machine)
        impossible = impossible_goals(machine, goals, explore(analysis, most=most, measures=()))
        self._wanted = [
            goal
            for goal in goals
            if goal not in impossible and not any(one.covers(goal) for one in covered)
        ]
        program = Program(machine.machine, machine.digest)
        self._inputs = Inputs(program, shared_inputs(suite.written, machine.machine))
        self._ways = Ways(analysis, flat_facts({"input": self._inputs.usual}), most)
        self._found = Suggestions(suite)

    def suggestions(self) -> Suggestions:
        self._ways.want(edge for goal in self._wanted for edge in goal.edges)
        far = {goal: self._ways.distance(goal) for goal in self._wanted}
        for goal in sorted(self._wanted, key=lambda goal: -far[goal]):
            if goal in self._wanted:
                self._look_for(goal)
        # A later way may have reached a goal for which none was found.
        self._found.failed = [one for one in self._found.failed if one[0] in self._wanted]
        return self._found

    def _look_for(self, goal: Goal) -> None:
        """Take the shortest way that a case can take."""
        reason = ""
        for _ in range(MOST_WAYS):
            way = self._ways.way(goal)
            if way is None:
                break
            try:
                case = self._with_shared(Parts(self._inputs, way).case())
                self._play(way, case)
            except NoCause as missing:
                reason = reason or str(missing)
                self._ways.forbid(missing.step)
            else:
                self._ways.allow_all()
                self._keep(goal, way, case)
                return
        self._ways.allow_all()
        if not reason:
            reason = (
                "no way that comes by it has an end"
                if self._ways.is_whole
                else "the machine has too many configurations, and none of the nearest comes to it"
            )
        self._found.failed.append((goal, reason))

    def _play(self, way: Way, case: dict[str, Any]) -> None:
        """Play a case with nothing still to be written; raises NoCause if it takes another way.

        It does if a template always gives the same text, which rules judge otherwise.
        """
        suite = _with_case(self._found.suite, case)
        if suite is None:
            return
        route = play(suite, CASE).state.route
        for step, taken in zip(way.steps, [*route, None], strict=False):
            if step.edge != taken:
                raise NoCause(step)

    def _keep(self, goal: Goal, way: Way, case: dict[str, Any]) -> None:
        reached = self._ways.reach_of(way)
        new = tuple(one for one in self._wanted if reached.covers(one))
        taken = {*self._found.suite.names, *(one.name for one in self._found.cases)}
        name = name_of(self._ways.graph, goal, taken)
        described = {"description": description_of(new), **case}
        self._found.cases.append(Suggestion(name, described, new))
        self._wanted = [one for one in self._wanted if one not in new]
        self._ways.want(edge for one in self._wanted for edge in one.edges)

    def _with_shared(self, case: dict[str, Any]) -> dict[str, Any]:
        """The case without the replies that agents also have in the shared parts."""
        shared = self._found.suite.written.scenario.agents
        agents = case.get("agents", {})
        own = Case.model_validate({"agents": agents}).agents
        unshared = {name: said for name, said in agents.items() if not _begins(shared, own, name)}
        return {key: value for key, value in {**case, "agents": unshared}.items() if value}


def _with_case(suite: Suite, case: Mapping[str, Any]) -> Suite | None:
    """The suite with this case alone; None where something of it is still to be written."""
    shared = {key: value for key, value in suite.written.plain.items() if key != "cases"}
    named = {"machine": suite.machine.source.document.file, **shared, "cases": {CASE: case}}
    loaded = replace(suite.written, scenario=Scenario.model_validate(named), plain=named)
    made = replace(suite, written=loaded)
    if made.unwritten[CASE]:
        return None
    inputs, _ = inputs_of(loaded, CASE, suite.machine.machine)
    return replace(made, inputs={CASE: inputs})


def _begins(shared: Mapping[str, Any], own: Mapping[str, Any], agent: str) -> bool:
    """Whether the shared replies of an agent begin with these."""
    said, also = own[agent], shared.get(agent)
    return isinstance(also, tuple) and isinstance(said, tuple) and also[: len(said)] == said
