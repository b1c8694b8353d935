"""The dearest and the cheapest path through the graph of configurations, and how many there are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from loopkit.bounds.configurations import END, Arc, Explored
from loopkit.bounds.moves import Case, Move
from loopkit.bounds.work import Asked
from loopkit.definition import FinalState
from loopkit.graph import Graph

Measure = Literal["runs", "calls", "cost"]
Number = int | float
NEVER = float("inf")


class Endless(Exception):
    """Some configurations can follow one another in a circle, so the machine need not end."""

    def __init__(self, state: str) -> None:
        super().__init__(f"a run can come back to `{state}` with nothing spent")
        self.state = state


def last_first(explored: Explored) -> list[int]:
    """The configurations, each after all that can follow it; raises Endless where none is such.

    Their order is the proof that every path is finite.
    """
    waiting = [len(arcs) for arcs in explored.arcs]
    before: list[list[int]] = [[] for _ in explored.arcs]
    for index, arcs in enumerate(explored.arcs):
        for _, target in arcs:
            if target == END:
                waiting[index] -= 1
            else:
                before[target].append(index)
    order = [index for index, left in enumerate(waiting) if left == 0]
    for index in order:
        for earlier in before[index]:
            waiting[earlier] -= 1
            if waiting[earlier] == 0:
                order.append(earlier)
    if len(order) < len(waiting):
        circling = next(index for index, left in enumerate(waiting) if left)
        raise Endless(explored.found[circling][0])
    return order


def paths(explored: Explored, order: list[int]) -> int:
    """How many paths there are from all the starts together."""
    counted = [0] * len(explored.arcs)
    for index in order:
        arcs = explored.arcs[index]
        counted[index] = sum(1 if to == END else counted[to] for _, to in arcs) if arcs else 1
    return sum(counted[start] for start in explored.starts)


def weight_of(asked: Asked, measure: Measure, *, is_worst: bool) -> Number:
    """What a visit counts for, with every retry and re-ask or with none. Prices are known."""
    if measure == "runs":
        return len(asked)
    calls = [(work.most_calls if is_worst else 1, work) for work in asked]
    if measure == "calls":
        return sum(number for number, _ in calls)
    return sum(number * (work.call_usd or 0.0) for number, work in calls)


@dataclass(frozen=True, slots=True)
class Aim:
    """What is looked for: the most that any path can take, or the least that leads to a success."""

    measure: Measure
    is_worst: bool

    def weight(self, move: Move) -> Number:
        """What the work before a move counts for."""
        # What a limit cuts short is no measure of what a success takes.
        is_cut_short = move.event == "limit" and not self.is_worst
        return NEVER if is_cut_short else self._weight(self.case(move)[1])

    def case(self, move: Move) -> tuple[Case, Asked]:
        """The row of a move that is meant, and who is asked for it."""
        choose: Callable[..., Case] = max if self.is_worst else min
        case = choose(move.cases, key=lambda case: self._weight(self._asked(case)))
        return case, self._asked(case)

    def _asked(self, case: Case) -> Asked:
        return case.spread.most if self.is_worst else case.spread.least

    def _weight(self, asked: Asked) -> Number:
        return weight_of(asked, self.measure, is_worst=self.is_worst)


class Search:
    """The extreme from every configuration on, by one topological pass."""

    def __init__(self, explored: Explored, order: list[int], graph: Graph, aim: Aim) -> None:
        self.aim = aim
        self._explored = explored
        self._choose: Callable[..., Any] = max if aim.is_worst else min
        moves = {id(move): move for arcs in explored.arcs for move, _ in arcs}
        self._weights = weights = {key: aim.weight(move) for key, move in moves.items()}
        over: Number = 0 if aim.is_worst else NEVER
        # One more than configurations: where END, which is -1, finds that of a suspended run.
        self._totals = totals = [over] * (len(order) + 1)
        for index in order:
            if arcs := explored.arcs[index]:
                totals[index] = self._choose([weights[id(m)] + totals[to] for m, to in arcs])
            elif _is_success(graph, explored.found[index][0]):
                totals[index] = 0

    def _through(self, arc: Arc) -> Number:
        move, target = arc
        return self._weights[id(move)] + self._totals[target]

    @property
    def start(self) -> int:
        start: int = self._choose(self._explored.starts, key=self._totals.__getitem__)
        return start

    @property
    def total(self) -> Number:
        return self._totals[self.start]

    def way(self) -> Iterator[tuple[int, Move]]:
        """The configurations of the path that is looked for, with the move out of each."""
        index = self.start
        while index != END and self._explored.arcs[index]:
            move, target = self._choose(self._explored.arcs[index], key=self._through)
            yield index, move
            index = target


def _is_success(graph: Graph, name: str) -> bool:
    state = graph.states[name]
    return isinstance(state, FinalState) and state.final == "success"
