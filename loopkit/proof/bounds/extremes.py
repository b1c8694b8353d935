"""The dearest path in the graph of configurations, and the number of its paths."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Literal

from loopkit.machine.graph import Graph
from loopkit.proof.bounds.agent_calls import Asked
from loopkit.proof.bounds.configurations import END, Explored
from loopkit.proof.bounds.moves import Case, Move
from loopkit.values import Value

Measure = Literal["runs", "calls", "cost", "tool_calls"]
Number = int | float
NEVER = float("inf")


class Endless(Exception):
    """Some configurations can follow one another in a cycle, so a run need not end."""

    def __init__(self, state: str) -> None:
        super().__init__(f"a run can come back to `{state}` with nothing spent")
        self.state = state


class Path(Value, frozen=True):
    """Consecutive moves, each with the number of the configuration that it leaves."""

    steps: tuple[tuple[int, Move], ...]
    end: int
    """The last configuration."""


def path_to(end: int, before: Mapping[int, tuple[int, Move]]) -> Path:
    """The path that led to a configuration."""
    steps: list[tuple[int, Move]] = []
    index = end
    while index in before:
        index, move = before[index]
        steps.append((index, move))
    return Path(tuple(reversed(steps)), end)


def last_first(explored: Explored) -> list[int]:
    """The configurations, each after all that can follow it; raises Endless if there is a cycle.

    Their order is the proof that every path is finite.
    """
    waiting = [len(targets) for targets in explored.targets]
    before: list[list[int]] = [[] for _ in waiting]
    for index, targets in enumerate(explored.targets):
        for target in targets:
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


def circle(graph: Graph) -> str | None:
    """A state in a possible cycle; None if the edges alone show that every run ends.

    Then the forward edges have no cycle, and every back edge spends a counter that is never reset.
    """
    place = {node: at for at, node in enumerate(graph.nodes_last_first)}
    reset = {counter for edge in graph.edges for counter in edge.resets}
    for node, ways in graph.junctions.ways.items():
        for edge in ways:
            is_endless = edge.back and reset.issuperset(edge.counters)
            if is_endless or (edge.forward and place[graph.junctions.to(edge)] >= place[node]):
                return edge.target
    return None


def paths(explored: Explored, order: Sequence[int]) -> int:
    """How many paths there are from all the starts together.

    Configurations after the same edge count as one if they continue alike, edge by edge.
    """
    kinds: dict[frozenset[tuple[str, int]], int] = {frozenset(): 0}
    counted = [1]
    labels: dict[int, list[str]] = {}
    # The additional last entry is found by END, which is -1: a run that has ended.
    kind_of = [0] * (len(order) + 1)
    for index in order:
        moves = explored.moves[index]
        if id(moves) not in labels:
            labels[id(moves)] = [move.edge.id if move.edge else move.event for move in moves]
        onward = [kind_of[target] for target in explored.targets[index]]
        ways = frozenset(zip(labels[id(moves)], onward, strict=True))
        if ways not in kinds:
            kinds[ways] = len(counted)
            counted.append(sum(counted[kind] for _, kind in ways))
        kind_of[index] = kinds[ways]
    return sum(counted[kind] for kind in {kind_of[start] for start in explored.starts})


def weight_of(asked: Asked, measure: Measure, *, is_worst: bool) -> Number:
    """The measure of a visit's calls, with every retry, fallback, re-ask and tool or with none.

    All prices have to be known.
    """
    if measure == "runs":
        return sum(work.runs for work in asked)
    if measure == "calls":
        return sum(work.most_calls if is_worst else work.runs for work in asked)
    if measure == "tool_calls":
        return sum(work.most_tool_calls if is_worst else 0 for work in asked)
    return sum((work.most_usd if is_worst else work.call_usd) or 0.0 for work in asked)


class Aim:
    """The aim of a search: the most that any path takes, or the least that reaches a success."""

    def __init__(self, measure: Measure, *, is_worst: bool) -> None:
        self.measure: Measure = measure
        self.is_worst = is_worst
        self._known: dict[int, tuple[Move, Number]] = {}

    def weight(self, move: Move) -> Number:
        """The measure of the work before a move."""
        known = self._known.get(id(move))
        if known is None:
            # The move is stored as well, so that no other object gets its id.
            known = self._known[id(move)] = (move, self._weight(move))
        return known[1]

    def _weight(self, move: Move) -> Number:
        # Work that a limit cuts short does not count for the least of a success.
        is_cut_short = move.event == "limit" and not self.is_worst
        return NEVER if is_cut_short else self._weigh(self.case(move)[1])

    def case(self, move: Move) -> tuple[Case, Asked]:
        """The case of a move that counts for this aim, and its agent calls."""
        sign = -1 if self.is_worst else 1
        case = min(move.cases, key=lambda c: (sign * self._weigh(self._calls_in(c)), not c.is_sure))
        return case, self._calls_in(case)

    def _calls_in(self, case: Case) -> Asked:
        return case.spread.most if self.is_worst else case.spread.least

    def _weigh(self, asked: Asked) -> Number:
        return weight_of(asked, self.measure, is_worst=self.is_worst)


def dearest(
    explored: Explored, order: Sequence[int], aim: Aim, ends: Collection[str] | None = None
) -> tuple[Number, Path] | None:
    """The most that a path takes, and such a path, in one pass over all configurations.

    With `ends`, only paths to one of these states count; None if there is no such path.
    """
    weights = {id(moves): list(map(aim.weight, moves)) for moves in explored.every_plan()}
    weighed = [weights[id(moves)] for moves in explored.moves]
    # The additional last entry is found by END, which is -1: a suspended run.
    totals: list[Number] = [0 if ends is None else -NEVER] * (len(order) + 1)
    for index in order:
        if ends is not None and explored.found[index][0] in ends:
            totals[index] = 0
        if targets := explored.targets[index]:
            totals[index] = max(
                [w + totals[to] for w, to in zip(weighed[index], targets, strict=True)]
            )
    index = max(explored.starts, key=totals.__getitem__)
    if totals[index] == -NEVER:
        return None
    total, end, steps = totals[index], index, list[tuple[int, Move]]()
    while index != END and (targets := explored.targets[index]):
        through = [w + totals[to] for w, to in zip(weighed[index], targets, strict=True)]
        at = through.index(max(through))
        steps.append((index, explored.moves[index][at]))
        end, index = index, targets[at]
    return total, Path(tuple(steps), end if index == END else index)
