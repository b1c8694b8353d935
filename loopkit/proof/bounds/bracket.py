"""Bounds of a machine with too many configurations to explore all: between two numbers.

For the dearest path, configurations are explored in the order of the most that they can still
reach under given prices, until no other path can exceed the best known one. If that takes too long,
the most that the next one can reach is an upper bound, and the dearest path so far a lower one.
"""

from __future__ import annotations

import sys
from collections.abc import Collection
from fractions import Fraction
from heapq import heappop, heappush
from itertools import count
from math import ceil, lcm

from loopkit.proof.bounds.agent_calls import Asked
from loopkit.proof.bounds.configurations import (
    END,
    NEVER,
    Aim,
    Endless,
    Explorer,
    Measure,
    Number,
    Path,
    Present,
    ahead,
    cheapest,
    circle,
)
from loopkit.proof.bounds.exact import UNKNOWN, Descriptions, Picture, bounds_of
from loopkit.proof.bounds.moves import Move
from loopkit.proof.bounds.prices import Prices, prices_of
from loopkit.proof.bounds.result import Bounds, Extreme
from loopkit.values import Value

MOST_SEARCHED = 50_000
"""The most configurations that are explored for each extreme."""


class Bracket:
    """Computes limits that no run exceeds or undercuts, and runs that come near."""

    def __init__(self, explorer: Explorer, picture: Picture, present: Present | None) -> None:
        self._plans = explorer.plans
        self._graph = explorer.plans.variables.graph
        self._picture = picture
        self._present = present
        self._start = present.state if present else self._graph.machine.start
        if (name := circle(self._graph)) is not None:
            raise Endless(name)

        states = sorted(self._graph.reachable(self._start))
        asking = self._plans.moves.asking
        self.reach: Asked = tuple(work for name in states for work in asking.reach(name))
        """All agent calls that runs can make."""
        self.unpriced = asking.calls_without_price(states)
        self.is_suspended = True
        """A run may be suspended; this is not known without exploring all configurations."""

    def bounds(self, measures: Collection[Measure]) -> Bounds:
        """The bounds, with the extremes of some measures."""
        return bounds_of(self, self._graph, measures).replace(
            stuck=tuple(self._picture.stuck()), untaken=self._picture.untaken()
        )

    def worst(self, measure: Measure, ends: Collection[str] | None = None) -> Extreme:
        """The most that any path takes; exact only if the path leads to an end."""
        aim = Aim(measure, is_worst=True)
        prices = prices_of(self._plans.variables, self._picture.plans(), aim, self._start)
        explorer = self._explorer()
        found = _Search(explorer, aim, prices).dearest(MOST_SEARCHED)
        path = found.path
        if path is None or (ends is not None and explorer.state(path.end) not in ends):
            return UNKNOWN.replace(total=found.at_most)
        return self._descriptions(explorer).extreme(found.at_most, path, aim)

    def best(self, measure: Measure, ends: Collection[str]) -> Extreme | None:
        """The least that it takes to come to one of some states."""
        aim = Aim(measure, is_worst=False)
        least = ahead(ends, self._picture.plans(), aim)
        explorer = self._explorer()
        found = cheapest(explorer, aim, ends, least, MOST_SEARCHED)
        if found.path is None:
            return None if found.total == NEVER else UNKNOWN.replace(total=found.total)
        return self._descriptions(explorer).extreme(found.total, found.path, aim)

    def _explorer(self) -> Explorer:
        return Explorer(self._plans, sys.maxsize, self._present)

    def _descriptions(self, explorer: Explorer) -> Descriptions:
        return Descriptions(self._plans, explorer.so_far.found, self._present)


FINE = 1 << 100
"""The number of units in a dollar, so large that prices given as floats are whole numbers."""


class Dearest(Value, frozen=True):
    """The total that no run exceeds, and the dearest path that some run surely takes."""

    at_most: Number
    path: Path | None


class _Label(Value, frozen=True):
    """A path to a configuration or to an end."""

    at: int
    node: str
    """The node in the machine's graph, where a state may have several."""
    gained: int
    before: _Label | None = None
    by: Move | None = None
    is_sure: bool = True


class _Search:
    """A best-first search that counts in whole numbers of small units."""

    def __init__(self, explorer: Explorer, aim: Aim, prices: Prices) -> None:
        self._explorer = explorer
        self._aim = aim
        self._prices = prices
        graph = explorer.plans.variables.graph
        self._states, self._to = graph.states, graph.junctions.to
        rates = (prices.bound, *prices.promised.values(), *prices.of_edges.values())
        self._unit = lcm(*(rate.denominator for rate in rates))
        self._unit *= FINE if aim.measure == "cost" else 1
        self._bound = self._units(prices.bound)
        self._known: dict[tuple[int, str], tuple[Move, int, int, bool]] = {}
        self._gained: dict[int, int] = {}
        """The most that a known path to each configuration gains."""
        self._front: list[tuple[int, int, int, _Label]] = []
        self._serial = count()
        self._best = self._surest = _Label(END, "", -1)
        """The end with the most, and the one of those that are surely reached."""

    def dearest(self, most: int) -> Dearest:
        """The dearest path, exploring at most `most` configurations."""
        for start in self._explorer.starts():
            self._add(0, _Label(start, self._explorer.state(start), 0))
        looked = 0
        while self._front:
            slack, _, _, label = heappop(self._front)
            if self._gained[label.at] > label.gained:
                continue
            possible = self._possible(slack)
            if possible <= self._best.gained:
                break
            if looked == most:
                return Dearest(self._number(possible), self._path())
            looked += 1
            self._look(slack, label)
        return Dearest(self._number(self._best.gained), self._path())

    def _look(self, slack: int, label: _Label) -> None:
        arcs = list(self._explorer.arcs(label.at))
        if not arcs:
            self._note_end(label)
        for move, target in arcs:
            weight, less, is_sure = self._weigh(move, label.node)
            gained, is_sure = label.gained + weight, label.is_sure and is_sure
            node = self._to(move.edge) if move.edge else label.node
            onward = _Label(target, node, gained, label, move, is_sure)
            if target == END or self._states[self._explorer.state(target)].ends:
                self._note_end(onward)
            elif onward.gained > self._gained.get(target, -1):
                # Paths to one configuration continue alike, so the one that gained most is best.
                self._add(slack + less, onward)

    def _add(self, slack: int, label: _Label) -> None:
        self._gained[label.at] = label.gained
        heappush(self._front, (slack, -label.gained, next(self._serial), label))

    def _note_end(self, end: _Label) -> None:
        if end.gained > self._best.gained:
            self._best = end
        if end.is_sure and end.gained > self._surest.gained:
            self._surest = end

    def _weigh(self, move: Move, node: str) -> tuple[int, int, bool]:
        """A move's gain, how far it stays below its node's promise, and whether it is sure."""
        known = self._known.get((id(move), node))
        if known is None:
            gain = Fraction(self._aim.weight(move))
            is_sure = self._aim.case(move)[0].is_sure
            known = (move, self._units(gain), self._units(self._less(move, node, gain)), is_sure)
            self._known[id(move), node] = known
        return known[1:]

    def _less(self, move: Move, node: str, gain: Fraction) -> Fraction:
        edge, promised = move.edge, self._prices.promised
        if edge is None:
            return Fraction(0)
        cost = self._prices.of_edges.get(edge.id, Fraction(0))
        return promised[node] - gain - promised[self._to(edge)] + cost

    def _possible(self, slack: int) -> int:
        """The most that a path can still reach; a whole number, unless it is a cost."""
        left = self._bound - slack
        return left if self._aim.measure == "cost" else left - left % self._unit

    def _units(self, amount: Fraction) -> int:
        return ceil(amount * self._unit)

    def _number(self, units: int) -> Number:
        amount = Fraction(units, self._unit)
        return amount.numerator if amount.denominator == 1 else float(amount)

    def _path(self) -> Path | None:
        label, steps = self._surest, list[tuple[int, Move]]()
        end = label.at
        while label.before is not None and label.by is not None:
            steps.append((label.before.at, label.by))
            label = label.before
        steps.reverse()
        return Path(tuple(steps), steps[-1][0] if end == END else end) if steps else None
