"""Measured coverage: played runs → the goals they reach, and the goals no run can."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from pathlib import Path

from loopkit.language.load import Loaded
from loopkit.machine.graph import Graph
from loopkit.proof.bounds import Analysis, Bounds, explore
from loopkit.testing.coverage.goals import Goal, GoalKind, goals_of
from loopkit.testing.coverage.reached import collect_reached
from loopkit.testing.family import FamilyRun
from loopkit.testing.playing import Run
from loopkit.testing.suites import Suite
from loopkit.views.diagram.marks import Mark, Marks


@dataclass(frozen=True, slots=True)
class Count:
    """How many goals are covered, of those that can be."""

    covered: int
    total: int

    @property
    def percent(self) -> Fraction:
        """Exact, from 0 to 100; 100 where there is nothing to cover."""
        return Fraction(100 * self.covered, self.total) if self.total else Fraction(100)


@dataclass(frozen=True, slots=True)
class Measured:
    """One goal, and whether cases cover it."""

    goal: Goal
    status: Mark
    """`impossible` where no run of the machine can reach the goal."""
    cases: tuple[str, ...]
    """The cases that cover it, as `FILE::CASE`, in the order in which they were played."""


@dataclass(frozen=True)
class MachineCoverage:
    """The coverage of one machine by its cases."""

    loaded: Loaded
    measured: tuple[Measured, ...]
    is_exact: bool
    """False if the machine has more configurations than are examined: then no goal is known to be
    impossible."""

    @property
    def file(self) -> str:
        """The machine file: relative to the current folder if below it, else as it was named."""
        named, here = self.loaded.source.document.file, Path.cwd()
        path = Path(named).resolve()
        return str(path.relative_to(here)) if path.is_relative_to(here) else named

    @property
    def missed(self) -> tuple[Goal, ...]:
        """The goals that no case covers, though a run could."""
        return tuple(one.goal for one in self.measured if one.status == "missed")

    @property
    def never_taken(self) -> frozenset[str]:
        """The ids of the edges that no run takes."""
        edges = [one for one in self.measured if one.goal.kind == "transition"]
        return frozenset(
            edge for one in edges if one.status == "impossible" for edge in one.goal.edges
        )

    def count(self, kind: GoalKind | None = None) -> Count:
        """The count of all goals, or of one kind."""
        found = [one.status for one in self.measured if kind in (None, one.goal.kind)]
        covered = found.count("covered")
        return Count(covered, covered + found.count("missed"))

    @cached_property
    def marks(self) -> Marks:
        """The coverage as marks for a diagram."""
        edges = [one for one in self.measured if one.goal.kind == "transition"]
        return Marks(
            {one.goal.name: one.status for one in self.measured if one.goal.kind == "state"},
            {edge: one.status for one in edges for edge in one.goal.edges},
            {one.goal.name: one.status for one in self.measured if one.goal.kind == "cap"},
        )


@dataclass(frozen=True)
class Coverage:
    """The coverage of all machines that cases test."""

    machines: tuple[MachineCoverage, ...]

    @property
    def count(self) -> Count:
        """The count of all goals of all machines."""
        counts = [machine.count() for machine in self.machines]
        return Count(sum(one.covered for one in counts), sum(one.total for one in counts))


@dataclass
class Tally:
    """Collects what played cases reach. A machine that several files test is counted once."""

    _machines: dict[Path, _Reaching] = field(default_factory=dict)

    def add(self, suite: Suite, case: str, run: Run) -> None:
        """Count the run of a case, and its children for the machines that they run."""
        self._add(suite.machine, suite, case, run)

    def _add(self, loaded: Loaded, suite: Suite, case: str, run: FamilyRun) -> None:
        self._of(loaded).add(suite, case, run)
        for one in run.children:
            self._add(loaded.children[one.state], suite, case, one.run)

    def _of(self, loaded: Loaded) -> _Reaching:
        """The goals reached in a machine; from then on the machines that it runs count too."""
        path = Path(loaded.source.document.file).resolve()
        if path not in self._machines:
            self._machines[path] = _Reaching(loaded, goals_of(loaded))
            for child in loaded.children.values():
                self._of(child)
        return self._machines[path]

    def coverage(self) -> Coverage:
        """The coverage by the cases so far. Goes through all runs of each machine once."""
        return Coverage(tuple(reaching.measure() for reaching in self._machines.values()))


@dataclass
class _Reaching:
    loaded: Loaded
    goals: tuple[Goal, ...]
    cases: dict[Goal, list[str]] = field(default_factory=dict)

    def add(self, suite: Suite, case: str, run: FamilyRun) -> None:
        engine, named = suite.machines.engines[run.state.definition], f"{suite.path}::{case}"
        found = collect_reached(engine, run.plain_events)
        for goal in self.goals:
            cases = self.cases.setdefault(goal, [])
            # Several children of one case may reach the same.
            if found.covers(goal) and cases[-1:] != [named]:
                cases.append(named)

    def measure(self) -> MachineCoverage:
        bounds = explore(Analysis.of_machine(self.loaded.machine), measures=())
        impossible = impossible_goals(self.loaded, self.goals, bounds)
        return MachineCoverage(
            self.loaded,
            tuple(self._one(goal, impossible) for goal in self.goals),
            bounds.is_whole,
        )

    def _one(self, goal: Goal, impossible: frozenset[Goal]) -> Measured:
        cases = tuple(self.cases.get(goal, ()))
        if cases:
            return Measured(goal, "covered", cases)
        return Measured(goal, "impossible" if goal in impossible else "missed", ())


def impossible_goals(loaded: Loaded, goals: Iterable[Goal], bounds: Bounds) -> frozenset[Goal]:
    """The goals that no run of the machine can reach; none where the bounds are not exact."""
    graph = Graph(loaded.machine)
    untaken, unclosed = frozenset(bounds.untaken), frozenset(bounds.unclosed)

    def is_impossible(goal: Goal) -> bool:
        if goal.kind == "state":
            into = {edge.id for edge in graph.incoming[goal.name]}
            return goal.name != graph.machine.start and into <= untaken
        return {*goal.edges} <= (untaken if goal.kind == "transition" else unclosed)

    return frozenset(goal for goal in goals if is_impossible(goal))
