"""Shortest paths to goals, found in the graph of configurations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import inf

from loopkit.language.facts import STALLED
from loopkit.machine.edges import Edge
from loopkit.proof.bounds.agent_calls import Asking
from loopkit.proof.bounds.configurations import END, Arc, Explorer, TooMany
from loopkit.proof.bounds.contexts import room_of
from loopkit.proof.bounds.moves import Move, Moves
from loopkit.proof.bounds.plans import Plans
from loopkit.proof.bounds.regions import Region
from loopkit.proof.bounds.telling import alike
from loopkit.proof.bounds.variables import Variables
from loopkit.proof.outcomes import Analysis
from loopkit.testing.coverage import Reached
from loopkit.testing.coverage.goals import Goal
from loopkit.testing.suggesting.nearest import nearest

STEP, NEW, ODD, OTHER_INPUT = 1_000, 1, 500, 6_000
"""The cost of a step, the discount for an edge that is still wanted, the surcharge after an error,
and the cost of an input that differs from the file or its default."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a way: a move out of a configuration."""

    at: int
    """The number of the configuration."""
    source: str
    """The state that works."""
    move: Move

    @property
    def edge(self) -> str | None:
        """The id of the edge; None where an error suspends the run, which ends a way."""
        return None if self.move.edge is None else self.move.edge.id


@dataclass(frozen=True, slots=True)
class Way:
    """A path from the start to a final state, or to where an error suspends the run."""

    inputs: Mapping[str, object]
    """The inputs that have to differ from the usual ones, by dotted name."""
    start: str
    steps: tuple[Step, ...]

    @property
    def path(self) -> list[str]:
        """The states that are entered, in order."""
        edges = (step.move.edge for step in self.steps)
        return [self.start, *(edge.target for edge in edges if edge is not None)]


@dataclass(slots=True)
class _Distances:
    """The distance of each configuration from the start, and from an end."""

    from_start: list[float]
    to_end: list[float]
    before: dict[int, tuple[int, Move]] = field(default_factory=dict)
    behind: dict[int, tuple[Move, int]] = field(default_factory=dict)


class Ways:
    """The configurations of a machine, and the ways through them."""

    def __init__(self, analysis: Analysis, usual: Mapping[str, object], most: int) -> None:
        """`usual` are the default inputs of a run, by dotted name.

        At most `most` configurations are examined, those near the start.
        """
        self.graph = analysis.graph
        self._variables = Variables(analysis, {}, keeps_inputs=True)
        self._moves = Moves(self._variables, Asking(analysis, lambda *_: None))
        explorer = Explorer(Plans(self._moves), most)
        self.is_whole = True
        try:
            explored = explorer.explore_all()
        except TooMany:
            explored, self.is_whole = explorer.so_far, False
        self._explored = explored
        self._found, self._starts = explored.found, explored.starts
        self._arcs: list[tuple[Arc, ...]] = [
            tuple(arc for arc in explored.arcs(at) if self._is_possible(arc[0]))
            for at in range(len(self._found))
        ]
        self._usual = usual
        self._stand_ins: dict[str, Callable[[object], object]] = {}
        self._distances: _Distances | None = None
        self._wanted: frozenset[str] = frozenset()
        self._forbidden: set[tuple[int, int]] = set()

    def forbid(self, step: Step) -> None:
        """Look for ways without this step."""
        self._forbidden.add((step.at, id(step.move)))
        self._distances = None

    def allow_all(self) -> None:
        """Allow all forbidden steps again."""
        if self._forbidden:
            self._forbidden, self._distances = set(), None

    def want(self, edges: Iterable[str]) -> None:
        """Prefer these edges among ways that are equally long."""
        self._wanted, self._distances = frozenset(edges), None

    def way(self, goal: Goal) -> Way | None:
        """The shortest way that reaches a goal; None where there is none."""
        ways = ((cost, at, arc) for cost, at, arc in self._through(goal) if cost < inf)
        nearest = min(ways, key=lambda way: way[0], default=None)
        return None if nearest is None else self._path(nearest[1], nearest[2])

    def distance(self, goal: Goal) -> float:
        """The length of the shortest way that reaches a goal; infinite where there is none."""
        return min((cost for cost, _, _ in self._through(goal)), default=inf)

    def reach_of(self, way: Way) -> Reached:
        """What a run that takes a way reaches."""
        reached = Reached(entered=set(way.path), taken={s.edge for s in way.steps if s.edge})
        for step in way.steps:
            reached.closed.update(
                edge.id for edge in self.graph.on(step.source, step.move.event)
                if edge.back and not self._has_room(edge, step.at)
            )  # fmt: skip
        return reached

    # -- goals -----------------------------------------------------------------------------

    def _through(self, goal: Goal) -> Iterator[tuple[float, int, Arc | None]]:
        """Every configuration, or arc, that reaches a goal, with the cost of the way through it."""
        far = self._far
        for at, (name, _) in enumerate(self._found):
            here = far.from_start[at]
            if here == inf:
                continue
            if goal.kind == "state":
                if name == goal.name:
                    yield here + far.to_end[at], at, None
                continue
            if goal.kind == "cap" and not self._is_closed(goal, at):
                continue
            for arc in self._open(at):
                if self._reaches(goal, arc[0]):
                    onward = 0 if arc[1] == END else far.to_end[arc[1]]
                    yield here + self._cost(at, arc) + onward, at, arc

    def _reaches(self, goal: Goal, move: Move) -> bool:
        """Whether a move takes an edge of the goal or, for a cap, decides without it."""
        if goal.kind == "transition":
            return move.edge is not None and move.edge.id in goal.edges
        return any(self._by_id(edge).event == move.event for edge in goal.edges)

    def _is_closed(self, goal: Goal, at: int) -> bool:
        name = self._found[at][0]
        return any(
            edge.source == name and not self._has_room(edge, at)
            for edge in map(self._by_id, goal.edges)
        )

    def _has_room(self, edge: Edge, at: int) -> bool:
        values = self._explored.values(at)
        rooms = (room_of(self._variables, counter)(values) for counter in edge.counters)
        return all(room is not False for room in rooms)

    def _by_id(self, edge: str) -> Edge:
        return self.graph.by_id[edge]

    # -- paths -----------------------------------------------------------------------------

    def _path(self, at: int, arc: Arc | None) -> Way:
        far, steps = self._far, list[Step]()
        start = at
        while start in far.before:
            start, move = far.before[start]
            steps.append(self._step(start, move))
        steps.reverse()
        if arc is not None:
            steps.append(self._step(at, arc[0]))
            at = arc[1]
        while at in far.behind:
            move, following = far.behind[at]
            steps.append(self._step(at, move))
            at = following
        inputs = self._unusual([*(step.at for step in steps), at])
        return Way(inputs, self._found[start][0], tuple(steps))

    def _unusual(self, way: Iterable[int]) -> dict[str, object]:
        """The inputs that have to differ from the usual ones for a way to be taken."""
        narrowest: dict[str, Region] = {}
        for at in way:
            narrowest |= self._regions(at)
        return {n: r.stand_in for n, r in narrowest.items() if not self._has_usual(n, r)}

    def _step(self, at: int, move: Move) -> Step:
        return Step(at, self._found[at][0], move)

    @property
    def _far(self) -> _Distances:
        if self._distances is None:
            self._distances = self._measure()
        return self._distances

    def _measure(self) -> _Distances:
        count = len(self._found)
        far = _Distances([inf] * count, [inf] * count)
        starts = {at: self._cost_of_inputs({}, at) for at in self._starts}
        for at, far.from_start[at], by in nearest(starts, self._onward):
            if by is not None:
                far.before[at] = by
        into: list[list[tuple[int, Move]]] = [[] for _ in self._found]
        for at in range(count):
            for move, to in self._open(at):
                if to != END:
                    into[to].append((at, move))

        def backward(to: int) -> Iterator[tuple[int, float, tuple[Move, int]]]:
            return ((at, self._cost(at, (move, to)), (move, to)) for at, move in into[to])

        ends = {at: 0.0 for at, (name, _) in enumerate(self._found) if self.graph.states[name].ends}
        for at, far.to_end[at], follows in nearest(ends, backward):
            if follows is not None:
                far.behind[at] = follows
        return far

    def _onward(self, at: int) -> Iterator[tuple[int, float, tuple[int, Move]]]:
        arcs = self._open(at)
        return ((to, self._cost(at, (move, to)), (at, move)) for move, to in arcs if to != END)

    def _open(self, at: int) -> Iterator[Arc]:
        return (arc for arc in self._arcs[at] if (at, id(arc[0])) not in self._forbidden)

    def _cost(self, at: int, arc: Arc) -> float:
        move, to = arc
        is_new = move.edge is not None and move.edge.id in self._wanted
        is_odd = move.event != "done" or all(case.row.get(STALLED) for case in move.cases)
        inputs = 0 if to == END else self._cost_of_inputs(self._regions(at), to)
        return STEP - NEW * is_new + ODD * is_odd + inputs

    def _regions(self, at: int) -> dict[str, Region]:
        return self._explored.plans.inputs(*self._found[at])

    def _cost_of_inputs(self, before: Mapping[str, Region], at: int) -> float:
        """The cost of inputs that can't be the usual ones from a configuration on."""
        return OTHER_INPUT * sum(
            not self._has_usual(name, region)
            and (name not in before or self._has_usual(name, before[name]))
            for name, region in self._regions(at).items()
        )

    def _has_usual(self, name: str, region: Region) -> bool:
        """Whether a region has the usual value of an input, or one that no guard distinguishes."""
        usual = self._usual.get(name)
        if not isinstance(usual, bool) and region.has_number(usual):
            return True
        if name not in self._stand_ins:
            guards = [g for gs in self._variables.guards.values() for g in gs]
            guards += [g for gs in self._variables.rule_guards.values() for g in gs]
            self._stand_ins[name] = alike(name, guards)
        stand_in = self._stand_ins[name]
        return stand_in(usual) in map(stand_in, region.others)

    def _is_possible(self, move: Move) -> bool:
        """Whether a case can bring a move about.

        Limits need calls, and no case can make a template fail. A move of a state that keeps its
        work leads nowhere that its work would not.
        """
        if move.is_spared:
            return False
        if move.edge is None:
            return True
        state, limits = self.graph.states[move.edge.source], self.graph.machine.limits
        if move.event == "fatal" and not state.works_outside:
            return False
        if move.event == "limit" and state.call == "run":
            return limits.time is not None
        return move.event != "limit" or bool(self._moves.asking.reach(move.edge.source))
