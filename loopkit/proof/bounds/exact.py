"""Exact bounds, from the whole graph of configurations, and the paths that show them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from loopkit.machine.graph import Graph
from loopkit.proof.bounds.agent_calls import Asked, calls_tools, without_price
from loopkit.proof.bounds.configurations import (
    END,
    NEVER,
    Aim,
    Dead,
    Explorer,
    Measure,
    Number,
    Path,
    ahead,
    cheapest,
    circle,
    dearest,
    last_first,
    path_to,
    weight_of,
)
from loopkit.proof.bounds.moves import Move
from loopkit.proof.bounds.result import Bounds, Extreme, Range, Stuck, Taken
from loopkit.proof.bounds.variables import Region, granted, left_of, number
from loopkit.proof.outcomes.table import Row

if TYPE_CHECKING:
    from loopkit.proof.bounds.bracket import Bracket

MOST_STEPS = 1_000_000
"""The most steps to compute how much is spent of counters; beyond that none is called unused."""
_Spending = tuple[bool, bool]
"""Whether a move keeps the count of a counter, and whether it spends one more."""
UNKNOWN = Extreme(None, None, {}, {}, (), {})


class Exact:
    """The bounds of a machine whose configurations were all explored."""

    def __init__(self, explored: Explorer) -> None:
        self._explored = explored
        self._variables = explored.plans.variables
        self._graph = self._variables.graph
        states = dict.fromkeys(name for name, _ in explored.found)
        self.reach: Asked = explored.plans.moves.asking.of_states(states)
        """All agent calls that runs can make."""
        self.unpriced = without_price(self.reach)
        if circle(self._graph) is not None:
            self._order  # noqa: B018 - raises Endless

    def bounds(self, measures: Collection[Measure]) -> Bounds:
        closed = self._explored.plans.closed
        edges = self._graph.edges
        return bounds_of(self, self._graph, measures).replace(
            configurations=len(self._explored.found),
            stuck=tuple(self._stuck()),
            untaken=untaken(self._graph, self._explored),
            unclosed=tuple(e.id for e in edges if e.back and e.id not in closed),
            unfilled=dict(self._counters_left()),
        )

    @property
    def is_suspended(self) -> bool:
        return any(END in targets for targets in self._explored.targets)

    @cached_property
    def _order(self) -> list[int]:
        return last_first(self._explored)

    def worst(self, measure: Measure, ends: Collection[str] | None = None) -> Extreme | None:
        aim = Aim(measure, is_worst=True)
        found = dearest(self._explored, self._order, aim, ends)
        return None if found is None else extreme_of(self._explored, *found, aim)

    def best(self, measure: Measure, ends: Collection[str]) -> Extreme | None:
        explored = self._explored
        return least_of(explored, explored.every_plan(), measure, ends, len(explored.found))

    def _stuck(self) -> Iterator[Stuck]:
        """The first stuck configuration of each state; a sure one before one that may be stuck."""
        for name in dict.fromkeys(name for name, _ in self._explored.dead):
            if (first := self._explored.first_dead(name)) is not None:
                yield stuck_at(self._explored, first)

    def _counters_left(self) -> Iterator[tuple[str, int]]:
        inputs = self._variables.inputs
        some = [counter for counter in self._graph.caps if inputs.most(counter) > 0]
        for counter in some if len(some) * len(self._explored.found) <= MOST_STEPS else ():
            spent = self._most_spent(counter)
            is_fixed = isinstance(inputs.caps[counter], int)
            if spent < inputs.most(counter) and (is_fixed or not self._is_used_up(counter)):
                yield counter, spent

    def _is_used_up(self, counter: str) -> bool:
        """Whether a run may spend the last of a counter whose cap is an input."""
        explored = self._explored
        return any(
            left_of(self._variables, counter, explored.plans.values(name, held))[0] <= 1
            for (name, held), moves in zip(explored.found, explored.moves, strict=True)
            if any(move.edge is not None and counter in move.edge.counters for move in moves)
        )

    def _most_spent(self, counter: str) -> int:
        """The most moves in a row that spend a counter without a reset between them."""
        most = [0] * (len(self._explored.found) + 1)
        known: dict[int, list[_Spending]] = {}
        for index in reversed(self._order):
            moves = self._explored.moves[index]
            before = most[index]
            if id(moves) not in known:
                known[id(moves)] = [
                    (counter not in e.resets, counter in e.counters) if e else (False, False)
                    for e in (move.edge for move in moves)
                ]
            targets = self._explored.targets[index]
            for (keeps, adds), target in zip(known[id(moves)], targets, strict=True):
                spent = before * keeps + adds
                if most[target] < spent:  # noqa: PLR1730 - a call of max takes half of the time
                    most[target] = spent
        return max(most)


def bounds_of(ends: Exact | Bracket, graph: Graph, measures: Collection[Measure]) -> Bounds:
    """The bounds with the extremes of some measures, and nothing else."""
    successes = [name for name, state in graph.states.items() if state.succeeds]

    def range_of(measure: Measure) -> Range:
        if measure not in measures:
            return Range(None, UNKNOWN)
        if measure == "cost" and ends.unpriced:
            return Range(UNKNOWN if ends.best("runs", successes) else None, UNKNOWN)
        return Range(ends.best(measure, successes), ends.worst(measure) or UNKNOWN)

    has_tools = "tool_calls" in measures and calls_tools(ends.reach)
    return Bounds(
        range_of("runs"),
        range_of("calls"),
        range_of("cost"),
        unpriced=ends.unpriced,
        tool_calls=ends.worst("tool_calls") if has_tools else None,
    )


def untaken(graph: Graph, explored: Explorer) -> tuple[str, ...]:
    every = (move for _, moves in explored.every_plan() for move in moves)
    taken = {move.edge.id for move in every if move.edge is not None}
    return tuple(edge.id for edge in graph.edges if edge.id not in taken)


def least_of(
    explorer: Explorer,
    plans: Iterable[tuple[str, Sequence[Move]]],
    measure: Measure,
    ends: Collection[str],
    most: int,
) -> Extreme | None:
    """The least that reaches one of the `ends`, after at most so many configurations."""
    aim = Aim(measure, is_worst=False)
    total, path = cheapest(explorer, aim, ends, ahead(ends, plans, aim), most)
    if path is None:
        return None if total == NEVER else UNKNOWN.replace(total=total)
    return extreme_of(explorer, total, path, aim)


def extreme_of(explorer: Explorer, total: Number, path: Path, aim: Aim) -> Extreme:
    """What a path takes, with the total that no path exceeds or undercuts."""
    by_state: dict[str, float] = defaultdict(int)
    by_agent: dict[str, float] = defaultdict(int)
    way: list[Taken] = []
    for index, move in path.steps:
        name = explorer.state(index)
        case, asked = aim.case(move)
        way.append(move.taken(name, case, asked))
        for work in asked:
            weight = weight_of((work,), aim.measure, is_worst=aim.is_worst)
            by_state[name] += weight
            by_agent[work.agent] += weight
    is_sure = all(aim.case(move)[0].is_sure for _, move in path.steps)
    known, inputs = total if is_sure else None, _inputs(explorer, path)
    return Extreme(total, known, dict(by_state), dict(by_agent), tuple(way), inputs)


def stuck_at(explorer: Explorer, dead: Dead) -> Stuck:
    path = path_to(dead.at, explorer.before)
    steps = ((explorer.state(index), move) for index, move in path.steps)
    way = tuple(move.taken(name, move.least, move.least.spread.least) for name, move in steps)
    spent, inputs = _counters(explorer, path), _inputs(explorer, path)
    return Stuck(explorer.state(dead.at), dead.row, spent, inputs, way, dead.is_sure)


def _counters(explorer: Explorer, path: Path) -> Mapping[str, int]:
    """How much a path has spent of the counters that the state at its end reads."""
    before = ((v, n) for v, n in explorer.present.values.items() if v.kind == "counter")
    spent = Counter({variable.name: number(spent) for variable, spent in before})
    for edge in (move.edge for _, move in path.steps if move.edge is not None):
        for counter in edge.resets:
            spent[counter] = 0
        spent.update(edge.counters)
    edges = explorer.plans.variables.graph.outgoing[explorer.state(path.end)]
    return {c: spent[c] for edge in edges for c in edge.counters}


def _inputs(explorer: Explorer, path: Path) -> Row:
    """The inputs that a path depends on, each with a value that leads along it."""
    known = explorer.plans.variables.inputs
    narrowest: dict[str, Region] = {}
    spent: Counter[str] = Counter()
    for index, move in (*path.steps, (path.end, None)):
        for variable, region in explorer.plans.values(*explorer.found[index]).items():
            if not isinstance(region, tuple | range):
                continue
            if variable.kind == "input":
                narrowest[variable.name] = region
            elif variable.kind == "room":
                few, most = (left + spent[variable.name] for left in granted(region))
                narrowest[str(known.caps[variable.name])] = range(few, most + 1)
        if move is not None and move.edge is not None:
            spent.update(move.edge.counters)
    return {name: one[0] for name, one in narrowest.items() if one != known.region(name)}
