"""Exact bounds, from the whole graph of configurations, and the paths that show them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from loopkit.machine.graph import Graph
from loopkit.proof.bounds.agent_calls import Asked, calls_tools, without_price
from loopkit.proof.bounds.configurations import (
    END,
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
    paths,
    weight_of,
)
from loopkit.proof.bounds.moves import Move
from loopkit.proof.bounds.result import Bounds, Extreme, Range, Stuck, Taken
from loopkit.proof.bounds.variables import Region, granted, number
from loopkit.proof.outcomes.table import Row

if TYPE_CHECKING:
    from loopkit.proof.bounds.bracket import Bracket

MOST_STEPS = 4_000_000
"""The most steps to compute how much is spent of counters that no run uses up."""
_Spending = tuple[bool, bool]
"""Whether a move keeps the count of a counter, and whether it spends one more."""
UNKNOWN = Extreme(None, None, {}, {}, (), {})


class Exact:
    """The bounds of a machine whose configurations were all explored."""

    def __init__(self, explored: Explorer) -> None:
        self._explored = explored
        self._variables = explored.plans.variables
        self._graph = self._variables.graph
        self._descriptions = Descriptions(explored)
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
            paths=paths(self._explored, self._order) if measures else None,
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
        return None if found is None else self._descriptions.extreme(*found, aim)

    def best(self, measure: Measure, ends: Collection[str]) -> Extreme | None:
        aim = Aim(measure, is_worst=False)
        least = ahead(ends, self._explored.every_plan(), aim)
        most = len(self._explored.found)
        total, path = cheapest(self._explored, aim, ends, least, most)
        return None if path is None else self._descriptions.extreme(total, path, aim)

    def _stuck(self) -> Iterator[Stuck]:
        """The first stuck configuration of each state; a sure one before one that may be stuck."""
        dead = self._explored.dead
        before = predecessors(self._explored) if dead else {}
        for name in dict.fromkeys(name for name, _ in dead):
            if (first := self._explored.first_dead(name)) is not None:
                yield self._descriptions.stuck(first, path_to(first.at, before))

    def _counters_left(self) -> Iterator[tuple[str, int | None]]:
        most = self._variables.inputs.most
        is_used_up = self._explored.plans.is_used_up
        some = [c for c in self._graph.caps if not is_used_up(c) and most(c) > 0]
        is_much = len(some) * len(self._explored.found) > MOST_STEPS
        for counter in some:
            spent = None if is_much else self._most_spent(counter)
            is_held = counter not in self._variables.behind_total
            if is_held or (spent is not None and spent < most(counter)):
                yield counter, spent

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
    every = (move for moves in explored.every_plan() for move in moves)
    taken = {move.edge.id for move in every if move.edge is not None}
    return tuple(edge.id for edge in graph.edges if edge.id not in taken)


def predecessors(explored: Explorer) -> Mapping[int, tuple[int, Move]]:
    """For each configuration, its predecessor on a shortest path and the move from there."""
    before: dict[int, tuple[int, Move]] = {}
    starts = set(explored.starts())
    for index, ways in enumerate(zip(explored.moves, explored.targets, strict=False)):
        for move, target in zip(*ways, strict=True):
            if target != END and target not in starts:
                before.setdefault(target, (index, move))
    return before


class Descriptions:
    def __init__(self, explorer: Explorer) -> None:
        self._plans = explorer.plans
        self._variables = explorer.plans.variables
        self._found = explorer.found
        self._before = explorer.present.values

    def extreme(self, total: Number, path: Path, aim: Aim) -> Extreme:
        """What a path takes, with the total that no path exceeds or undercuts."""
        by_state: dict[str, float] = defaultdict(int)
        by_agent: dict[str, float] = defaultdict(int)
        way: list[Taken] = []
        for index, move in path.steps:
            name = self._found[index][0]
            case, asked = aim.case(move)
            way.append(move.taken(name, case, asked))
            for work in asked:
                weight = weight_of((work,), aim.measure, is_worst=aim.is_worst)
                by_state[name] += weight
                by_agent[work.agent] += weight
        is_sure = all(aim.case(move)[0].is_sure for _, move in path.steps)
        known = total if is_sure else None
        inputs = self._inputs(path)
        return Extreme(total, known, dict(by_state), dict(by_agent), tuple(way), inputs)

    def stuck(self, dead: Dead, path: Path) -> Stuck:
        steps = ((self._found[index][0], move) for index, move in path.steps)
        way = tuple(move.taken(name, move.least, move.least.spread.least) for name, move in steps)
        name = self._found[dead.at][0]
        return Stuck(
            name, dead.row, self._counters(name, path), self._inputs(path), way, dead.is_sure
        )

    def _counters(self, name: str, path: Path) -> Mapping[str, int]:
        """How much a path has spent of the counters that a state reads."""
        counted = ((v, n) for v, n in self._before.items() if v.kind == "counter")
        spent = Counter({variable.name: number(spent) for variable, spent in counted})
        for _, move in path.steps:
            edge = move.edge
            for counter in edge.resets if edge else ():
                spent[counter] = 0
            spent.update(edge.counters if edge else ())
        edges = self._variables.graph.outgoing[name]
        return {c: spent[c] for edge in edges for c in edge.counters}

    def _inputs(self, path: Path) -> Row:
        """The inputs that a path depends on, each with a value that leads along it."""
        narrowest: dict[str, Region] = {}
        spent: Counter[str] = Counter()
        for index, move in (*path.steps, (path.end, None)):
            for variable, region in self._plans.values(*self._found[index]).items():
                if not isinstance(region, tuple | range):
                    continue
                if variable.kind == "input":
                    narrowest[variable.name] = region
                elif variable.kind == "room":
                    cap = str(self._variables.inputs.caps[variable.name])
                    few, most = (left + spent[variable.name] for left in granted(region))
                    narrowest[cap] = range(few, most + 1)
            if move is not None and move.edge is not None:
                spent.update(move.edge.counters)
        whole = self._variables.inputs.region
        return {name: region[0] for name, region in narrowest.items() if region != whole(name)}
