"""The dearest path of a machine with too many configurations to explore all of them.

They are explored in the order of the most that they can still reach under given prices, until no
other path can exceed the best known one. If that takes too long, the most that the next one can
reach is an upper bound, and the dearest path so far a lower one.
"""

from __future__ import annotations

from fractions import Fraction
from heapq import heappop, heappush
from itertools import count
from math import ceil, lcm

from loopkit.proof.bounds.configurations import END, Explorer
from loopkit.proof.bounds.extremes import Aim, Number, Path
from loopkit.proof.bounds.moves import Move
from loopkit.proof.bounds.prices import Prices
from loopkit.values import Value

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


def dearest_known(explorer: Explorer, aim: Aim, prices: Prices, most: int) -> Dearest:
    """The dearest path, exploring at most `most` configurations."""
    return _Search(explorer, aim, prices).dearest(most)


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
