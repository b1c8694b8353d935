"""For each goal that no case covers, a case that reaches it, or why there is none."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from math import inf
from typing import Any

from loopkit.machine.program import Program, flat_facts
from loopkit.proof.bounds import Anatomy, explore
from loopkit.testing.coverage import Reached, goals_of, impossible_goals, reached
from loopkit.testing.goals import Goal
from loopkit.testing.judging import judge
from loopkit.testing.playing import play
from loopkit.testing.suggesting.drafts import CASE, pasted, shared_inputs, without_shared
from loopkit.testing.suggesting.inputs import Inputs
from loopkit.testing.suggesting.naming import description_of, name_of
from loopkit.testing.suggesting.pool import Pool
from loopkit.testing.suggesting.said import texts_from_files, with_files
from loopkit.testing.suggesting.trying import NoWay, Trying
from loopkit.testing.suggesting.ways import Way, Ways
from loopkit.testing.suites import Suite

MOST_CONFIGURATIONS = 20_000
MOST_WAYS = 12
"""How many ways to one goal are tried."""


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A case that was played, and does what it says."""

    name: str
    case: dict[str, Any]
    """As a scenario file has it, with `expect: null`."""
    goals: tuple[Goal, ...]
    """What it covers that no case before it does."""


@dataclass
class Suggestions:
    """What was found for one machine."""

    suite: Suite
    """The file that the cases are for."""
    cases: list[Suggestion] = field(default_factory=list)
    failed: list[tuple[Goal, str]] = field(default_factory=list)
    """The goals for which there is no case, each with the reason."""


def suggest(
    suite: Suite, covered: Iterable[Reached], *, most: int = MOST_CONFIGURATIONS
) -> Suggestions:
    """Cases for all goals of a suite's machine that the runs of `covered` did not reach.

    What no run of the machine can do is no goal. The farthest goals come first, because the way
    there may come by others. At `most` so many configurations are looked at.
    """
    return _Search(suite, list(covered), most).suggestions()


class _Search:
    def __init__(self, suite: Suite, covered: Collection[Reached], most: int) -> None:
        self._suite = suite
        machine = suite.machine
        anatomy = Anatomy.of_machine(machine.machine)
        goals = goals_of(machine)
        impossible = impossible_goals(machine, goals, explore(anatomy, most=most, measures=()))
        self._wanted = [
            goal
            for goal in goals
            if goal not in impossible and not any(one.covers(goal) for one in covered)
        ]
        program = Program(machine.machine, machine.digest)
        pool = Pool.of(suite.written.scenario, suite.inputs)
        inputs = Inputs(program, shared_inputs(suite), pool)
        self._ways = Ways(anatomy, flat_facts({"input": inputs.usual}), most)
        self._trying = Trying(suite, inputs)
        self._paths = texts_from_files(suite.written)
        self._found = Suggestions(suite)

    def suggestions(self) -> Suggestions:
        self._ways.want(edge for goal in self._wanted for edge in goal.edges)
        far = {goal: self._ways.distance(goal) for goal in self._wanted}
        for goal in sorted(self._wanted, key=lambda goal: -far[goal]):
            if far[goal] == inf:
                self._found.failed.append((goal, self._no_way()))
            elif goal in self._wanted:
                self._look_for(goal)
        # A later way may have come by what could not be reached on purpose.
        self._found.failed = [one for one in self._found.failed if one[0] in self._wanted]
        return self._found

    def _look_for(self, goal: Goal) -> None:
        """Try the ways to a goal, the shortest first."""
        reason = ""
        for _ in range(MOST_WAYS):
            way = self._ways.way(goal)
            if way is None:
                break
            try:
                self._take(goal, way)
            except NoWay as dead_end:
                reason = reason or str(dead_end)
                self._ways.forbid(dead_end.step)
            else:
                self._ways.allow_all()
                return
        self._ways.allow_all()
        self._found.failed.append((goal, reason))

    def _take(self, goal: Goal, way: Way) -> None:
        """Keep a case that goes a way, also where it is pasted into the file; raises NoWay."""
        case = without_shared(self._suite, self._trying.case(way))
        found = self._played(way, case)
        if not found.covers(goal):
            raise NoWay(way.steps[-1], "the run that goes there does not come by it")
        new = [one for one in self._wanted if found.covers(one)]
        taken = {*self._suite.names, *(one.name for one in self._found.cases)}
        name = name_of(self._ways.graph, goal, taken)
        written = {"description": description_of(new), **with_files(case, self._paths)}
        self._found.cases.append(Suggestion(name, {**written, "expect": None}, tuple(new)))
        self._wanted = [one for one in self._wanted if one not in new]
        self._ways.want(edge for one in self._wanted for edge in one.edges)

    def _played(self, way: Way, case: dict[str, Any]) -> Reached:
        suite = pasted(self._suite, case)
        run = play(suite, CASE)
        failed = [one for one in judge(suite, CASE, run) if one.problem.code != "expects-nothing"]
        if failed:
            raise NoWay(way.steps[-1], failed[0].problem.message)
        engine = suite.machines.engines[run.state.definition]
        return reached(engine, (stored.event for stored in run.events))

    def _no_way(self) -> str:
        if self._ways.is_whole:
            return "no way that comes by it has an end"
        return "the machine has too many configurations, and none of the nearest comes to it"
