"""Prices of revisions: one for each counter, such that no move gains more than it costs.

With such prices, no run takes more than what its first state promises plus the worth of all
counters. The prices come from a linear program; the promises of states are recomputed in fractions,
so the bound holds whatever the prices are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cached_property

from loopkit.machine.edges import TOTAL, Edge
from loopkit.proof.bounds import simplex
from loopkit.proof.bounds.extremes import Aim
from loopkit.proof.bounds.late_edges import openings
from loopkit.proof.bounds.moves import Move
from loopkit.proof.bounds.variables import Variables
from loopkit.values import Value

ONCE = "then"
"""The counter of limit edges, of which a run takes at most one."""
FINEST = 10_000
"""The largest denominator of a price."""
ROUNDS = 100
RAISED = (Fraction(1), Fraction(1001, 1000), Fraction(11, 10))
"""The factors by which prices are multiplied until no cycle gains anything."""
MOST_STEPS = 1_000_000
"""The most steps over edges to make a linear program."""
NOTHING = Fraction(0)


class Prices(Value, frozen=True):
    """Prices, and the bound that follows from them."""

    of_edges: Mapping[str, Fraction]
    """The prices of the edges that spend something."""
    promised: Mapping[str, Fraction]
    """The most that a path from each node takes beyond the prices of its edges."""
    bound: Fraction
    """The total that no path from the start exceeds."""


def prices_of(
    variables: Variables, plans: Iterable[Sequence[Move]], aim: Aim, start: str
) -> Prices:
    """The best prices for a machine whose edges show that its runs end.

    `plans` has all moves that its runs can take, and may have more.
    """
    pricing = _Pricing(variables, plans, aim, start)
    return min(pricing.candidates(), key=lambda prices: prices.bound)


class _Pricing:
    """The heaviest move over each edge in any configuration, and the caps of counters."""

    def __init__(
        self, variables: Variables, plans: Iterable[Sequence[Move]], aim: Aim, start: str
    ) -> None:
        self._graph = variables.graph
        self._start = start
        self._nodes = self._graph.nodes_last_first
        self._to = self._graph.junctions.to
        self._ending = dict.fromkeys(self._nodes, NOTHING)
        """By node, the heaviest move with which a run is suspended there."""
        self._heaviest: dict[Edge, Fraction] = {}
        for moves in plans:
            for move in moves:
                self._weigh(move.edge, Fraction(aim.weight(move)), moves)
        reset = {counter for edge in self._graph.edges for counter in edge.resets}
        caps = {c: variables.inputs.cap(c).high for c in self._graph.caps if c not in reset}
        self._caps: Mapping[str, int] = {**caps, ONCE: 1}
        self._openings = openings(self._graph, variables.inputs.caps, caps)

    def _weigh(self, edge: Edge | None, weight: Fraction, moves: Sequence[Move]) -> None:
        if edge is not None:
            self._heaviest[edge] = max(weight, self._heaviest.get(edge, NOTHING))
            return
        for source in {move.edge.source for move in moves if move.edge} or self._graph.states:
            for node in self._graph.junctions.all_of(source):
                self._ending[node] = max(weight, self._ending[node])

    def candidates(self) -> Iterator[Prices]:
        """Prices under which no cycle gains anything; at least one of these exists."""
        for rates in (self._of_program(), self._of_one(0), self._of_one(-1)):
            for raised in RAISED if rates else ():
                prices = self._prices_at({name: raised * rate for name, rate in rates.items()})
                if prices is not None:
                    yield prices
                    break

    def _counters(self, edge: Edge) -> Sequence[str]:
        """The counters without a reset that an edge spends."""
        if edge.event == "limit":
            return (ONCE,)
        return [counter for counter in edge.counters if counter in self._caps]

    @cached_property
    def _spending(self) -> Sequence[Edge]:
        return [edge for edge in self._heaviest if self._counters(edge)]

    @cached_property
    def _forward(self) -> Mapping[str, Sequence[tuple[Fraction, str]]]:
        """The weight and the target of each forward move, by node."""
        return {
            node: [(self._heaviest[edge], self._to(edge)) for edge in edges if edge.forward]
            for node, edges in self._ways.items()
        }

    @cached_property
    def _ways(self) -> Mapping[str, Sequence[Edge]]:
        """The edges of all moves, by node."""
        ways = self._graph.junctions.ways
        return {node: [e for e in ways[node] if e in self._heaviest] for node in self._nodes}

    # -- by a linear program ---------------------------------------------------------------

    def _of_program(self) -> Mapping[str, Fraction]:
        """A rate for each counter and each opening; none where there is too much to work out."""
        entries = list(dict.fromkeys((self._start, *map(self._to, self._spending))))
        if len(entries) * len(self._heaviest) > MOST_STEPS:
            return {}
        bounds = {f"entry {name}": float(name == self._start) for name in entries}
        bounds |= {name: float(cap) for name, cap in self._caps.items()}
        bounds |= {opening.name: 0.0 for opening in self._openings}
        rows = {name: row for row, name in enumerate(bounds)}
        columns = [column for name in entries for column in self._columns(name, rows)]
        found = simplex.prices(columns, list(bounds.values())) or []
        rates = zip(bounds, found, strict=False)
        return {
            name: max(Fraction(rate).limit_denominator(FINEST), NOTHING)
            for name, rate in rates
            if not name.startswith("entry ")
        }

    def _columns(self, entry: str, rows: Mapping[str, int]) -> Iterator[simplex.Column]:
        """The heaviest paths from an entry to an end, and over each edge that spends something."""
        longest = self._longest(entry)
        most = max(total + self._ending[name] for name, total in longest.items())
        yield simplex.Column(float(most), {rows[f"entry {entry}"]: 1.0})
        for edge in self._spending:
            totals = [
                longest[node]
                for node in self._graph.junctions.all_of(edge.source)
                if node in longest and edge in self._ways[node]
            ]
            if totals:
                uses = {rows[f"entry {entry}"]: 1.0}
                onward = rows[f"entry {self._to(edge)}"]
                uses[onward] = uses.get(onward, 0.0) - 1.0
                uses |= {rows[name]: float(by) for name, by in self._uses(edge)}
                yield simplex.Column(float(max(totals) + self._heaviest[edge]), uses)

    def _uses(self, edge: Edge) -> Iterator[tuple[str, int]]:
        """How much an edge takes of each counter and of each opening."""
        yield from ((counter, 1) for counter in self._counters(edge))
        for opening in self._openings:
            if opening.uses(edge):
                yield opening.name, opening.uses(edge)

    def _longest(self, entry: str) -> dict[str, Fraction]:
        """The weight of the heaviest forward path from an entry to each node."""
        longest = {entry: NOTHING}
        for node in reversed(self._nodes):
            for weight, target in self._forward[node] if node in longest else ():
                longest[target] = max(longest.get(target, NOTHING), longest[node] + weight)
        return longest

    # -- by one counter for each edge ------------------------------------------------------

    def _of_one(self, at: int) -> Mapping[str, Fraction]:
        """The rates if one counter of each edge pays for the heaviest path on from it."""
        longest = dict.fromkeys(self._nodes, NOTHING)
        for node in self._nodes:
            ways = [weight + longest[target] for weight, target in self._forward[node]]
            longest[node] = max([*ways, self._ending[node]])
        rates: dict[str, Fraction] = {}
        for edge in self._spending:
            counter = self._counters(edge)[at]
            onward = self._heaviest[edge] + longest[self._to(edge)]
            rates[counter] = max(onward, rates.get(counter, NOTHING))
        return rates or {TOTAL: NOTHING}

    # -- what they amount to ---------------------------------------------------------------

    def _prices_at(self, rates: Mapping[str, Fraction]) -> Prices | None:
        """The promises of states at these rates; None if they grow along a cycle."""
        of_edges = {
            edge.id: sum((by * rates.get(name, NOTHING) for name, by in self._uses(edge)), NOTHING)
            for edge in self._spending
        }
        promised = dict(self._ending)
        for _ in range(ROUNDS):
            is_settled = True
            for node in self._nodes:
                for edge in self._ways[node]:
                    cost = of_edges.get(edge.id, NOTHING)
                    total = self._heaviest[edge] + promised[self._to(edge)] - cost
                    if total > promised[node]:
                        promised[node], is_settled = total, False
            if is_settled:
                worth = sum((rates.get(c, NOTHING) * cap for c, cap in self._caps.items()), NOTHING)
                return Prices(of_edges, promised, promised[self._start] + worth)
        return None
