"""Exact bounds, from the whole graph of configurations."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from functools import cached_property

from loopkit.proof.bounds.agent_calls import Asked, calls_tools
from loopkit.proof.bounds.cheapest import ahead, cheapest
from loopkit.proof.bounds.configurations import END, Explored, Explorer, Present
from loopkit.proof.bounds.descriptions import Descriptions
from loopkit.proof.bounds.extremes import Aim, Measure, circle, dearest, last_first, path_to, paths
from loopkit.proof.bounds.moves import Move
from loopkit.proof.bounds.result import Bounds, Extreme, Range, Stuck

MOST_STEPS = 4_000_000
"""The most steps to compute how much is spent of counters that no run uses up."""
_Spending = tuple[bool, bool]
"""Whether a move keeps the count of a counter, and whether it spends one more."""
UNKNOWN = Extreme(None, None, {}, {}, (), {})


class Exact:
    """The bounds of a machine whose configurations were all explored."""

    def __init__(self, explorer: Explorer, explored: Explored, present: Present | None) -> None:
        self._explorer = explorer
        self._explored = explored
        self._variables = explored.plans.variables
        self._graph = self._variables.graph
        self._present = present
        self._descriptions = Descriptions(explored.plans, explored.found, present)
        self.unpriced = explored.plans.moves.asking.calls_without_price(
            name for name, _ in explored.found
        )
        if circle(self._graph) is not None:
            self._order  # noqa: B018 - raises Endless

    def bounds(self, measures: Collection[Measure]) -> Bounds:
        """The bounds, with the extremes of some measures."""
        closed, edges = self._explored.plans.closed, self._graph.edges
        has_tools = "tool_calls" in measures and calls_tools(self.reach)
        return Bounds(
            self._range("runs", measures),
            self._range("calls", measures),
            self._range("cost", measures),
            configurations=len(self._explored.found),
            paths=paths(self._explored, self._order) if measures else None,
            stuck=tuple(self._stuck()),
            untaken=self._untaken(),
            unclosed=tuple(e.id for e in edges if e.back and e.id not in closed),
            unfilled=dict(self._counters_left()),
            unpriced=self.unpriced,
            tool_calls=self.worst("tool_calls") if has_tools else None,
        )

    @property
    def reach(self) -> Asked:
        """All agent calls that runs can make."""
        states = dict.fromkeys(name for name, _ in self._explored.found)
        asking = self._explored.plans.moves.asking
        return tuple(work for name in states for work in asking.reach(name))

    @property
    def is_suspended(self) -> bool:
        """Whether a run can end without a final state."""
        return any(END in targets for targets in self._explored.targets)

    @cached_property
    def _order(self) -> list[int]:
        return last_first(self._explored)

    # -- extremes --------------------------------------------------------------------------

    def _range(self, measure: Measure, measures: Collection[Measure]) -> Range:
        if measure not in measures:
            return Range(None, UNKNOWN)
        if measure == "cost" and self.unpriced:
            best = self.best("runs", self._successes)
            return Range(UNKNOWN if best else None, UNKNOWN)
        return Range(self.best(measure, self._successes), self.worst(measure) or UNKNOWN)

    def worst(self, measure: Measure, ends: Collection[str] | None = None) -> Extreme | None:
        """The most that a path takes, to one of some states where these are given."""
        aim = Aim(measure, is_worst=True)
        found = dearest(self._explored, self._order, aim, ends)
        return None if found is None else self._descriptions.extreme(*found, aim)

    @cached_property
    def _successes(self) -> Collection[str]:
        return [name for name, state in self._graph.states.items() if state.succeeds]

    def best(self, measure: Measure, ends: Collection[str]) -> Extreme | None:
        """The least that it takes to come to one of some states."""
        aim = Aim(measure, is_worst=False)
        least = ahead(ends, self._explored.every_plan(), aim)
        found = cheapest(self._explorer, aim, ends, least, most=len(self._explored.found))
        if found.path is None:
            return None
        return self._descriptions.extreme(found.total, found.path, aim)

    # -- what is odd about it --------------------------------------------------------------

    def _stuck(self) -> Iterator[Stuck]:
        """The first stuck configuration of each state; a sure one before one that may be stuck."""
        dead = self._explored.dead
        before = predecessors(self._explored) if dead else {}
        for name in dict.fromkeys(name for name, _ in dead):
            first = dead.get((name, True)) or dead[name, False]
            yield self._descriptions.stuck(first, path_to(first.at, before))

    def _untaken(self) -> tuple[str, ...]:
        every = (move for moves in self._explored.every_plan() for move in moves)
        taken = {move.edge.id for move in every if move.edge is not None}
        return tuple(edge.id for edge in self._graph.edges if edge.id not in taken)

    def _counters_left(self) -> Iterator[tuple[str, int | None]]:
        cap, is_used_up = self._variables.inputs.cap, self._explored.plans.is_used_up
        some = [c for c in self._graph.caps if not is_used_up(c) and cap(c).high > 0]
        is_much = len(some) * len(self._explored.found) > MOST_STEPS
        for counter in some:
            yield counter, None if is_much else self._most_spent(counter)

    def _most_spent(self, counter: str) -> int:
        """The most moves in a row that spend a counter without a reset between them."""
        most = [0] * (len(self._explored.found) + 1)
        known: dict[int, list[_Spending]] = {}
        for index in reversed(self._order):
            moves, before = self._explored.moves[index], most[index]
            if id(moves) not in known:
                known[id(moves)] = [_spending(move, counter) for move in moves]
            targets = self._explored.targets[index]
            for (keeps, adds), target in zip(known[id(moves)], targets, strict=True):
                spent = before * keeps + adds
                if most[target] < spent:  # noqa: PLR1730 - a call of max takes half of the time
                    most[target] = spent
        return max(most)


def _spending(move: Move, counter: str) -> _Spending:
    edge = move.edge
    if edge is None:
        return False, False
    return counter not in edge.resets, counter in edge.counters


def predecessors(explored: Explored) -> Mapping[int, tuple[int, Move]]:
    """For each configuration, its predecessor on a shortest path and the move from there."""
    before: dict[int, tuple[int, Move]] = {}
    starts = set(explored.starts)
    for index in range(len(explored.moves)):
        for move, target in explored.arcs(index):
            if target != END and target not in starts:
                before.setdefault(target, (index, move))
    return before
