"""Bounds of a machine with too many configurations to explore all: what no run exceeds.

Each revision has a price, paid out of the caps of counters. At prices at which no cycle gains more
than it costs, no run takes more than its first state promises and all caps are worth.

A picture is the graph of a machine without counters, where each may have room or none at any time.
It is small, and what never happens in it happens in no run.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction

from loopkit.machine.edges import TOTAL, Edge
from loopkit.proof.bounds.agent_calls import Asked, without_price
from loopkit.proof.bounds.configurations import (
    Aim,
    Dead,
    Endless,
    Explorer,
    Measure,
    Number,
    TooMany,
    circle,
)
from loopkit.proof.bounds.exact import UNKNOWN, bounds_of, least_of, stuck_at, untaken
from loopkit.proof.bounds.moves import Move, Moves
from loopkit.proof.bounds.plans import Plans
from loopkit.proof.bounds.result import Bounds, Extreme, Stuck
from loopkit.proof.bounds.variables import Variables

MOST_SEARCHED = 50_000
"""The most configurations that are explored for the cheapest path."""


class Bracket:
    """Computes limits that no run exceeds or undercuts."""

    def __init__(self, explorer: Explorer, most: int) -> None:
        """`explorer` has reached its limit; `most` configurations may be explored in pictures."""
        self._explorer = explorer
        self._graph = explorer.plans.variables.graph
        self._start = explorer.present.state
        if (name := circle(self._graph)) is not None:
            raise Endless(name)

        states = sorted(self._graph.reachable(self._start))
        self.reach: Asked = explorer.plans.moves.asking.of_states(states)
        """All agent calls that runs can make."""
        self.unpriced = without_price(self.reach)
        self.is_suspended = True
        """A run may be suspended; this is not known without exploring all configurations."""
        self._left = most
        self._picture = self._without_all_but(())
        """None if even the picture has too many configurations."""

    def bounds(self, measures: Collection[Measure]) -> Bounds:
        return bounds_of(self, self._graph, measures).replace(
            stuck=tuple(self._stuck()),
            untaken=() if self._picture is None else untaken(self._graph, self._picture),
        )

    def worst(self, measure: Measure, ends: Collection[str] | None = None) -> Extreme:
        """The most that any path takes, without a path."""
        aim = Aim(measure, is_worst=True)
        prices = _Prices(self._explorer.plans.variables, self._moves(), aim, self._start)
        return UNKNOWN.replace(total=prices.at_most())

    def best(self, measure: Measure, ends: Collection[str]) -> Extreme | None:
        return least_of(self._explorer.anew(), self._moves(), measure, ends, MOST_SEARCHED)

    def _moves(self) -> Iterator[Sequence[Move]]:
        """All moves that runs can take, and maybe more."""
        if self._picture is not None:
            yield from self._picture.every_plan()
            return
        for name in self._graph.states:
            yield self._explorer.plans.moves.anything(name)

    def _stuck(self) -> Iterator[Stuck]:
        """The states in which a run is stuck, with the path there, or may be stuck."""
        for name in self._graph.states:
            if (dead := self._explorer.dead.get((name, True))) is not None:
                yield stuck_at(self._explorer, dead)
            elif self._picture is not None and (found := self._picture.first_dead(name)):
                yield from self._decide(name, found)

    def _decide(self, name: str, found: Dead) -> Iterator[Stuck]:
        """Decide whether a state stuck in the picture is stuck with its counters tracked."""
        edges = self._graph.outgoing[name]
        finer = self._without_all_but({c for edge in edges for c in edge.counters})
        dead = finer.first_dead(name) if finer is not None else found
        if dead is not None:
            yield Stuck(name, dead.row, {}, {}, (), dead.is_sure, is_reached=False)

    def _without_all_but(self, counted: Collection[str]) -> Explorer | None:
        """The graph of configurations in which only some counters are tracked."""
        moves = self._explorer.plans.moves
        known = moves.variables
        fewer = Variables(known.analysis, known.given, counted, has_begun=known.has_begun)
        explorer = Explorer(Plans(Moves(fewer, moves.asking)), self._left, self._explorer.present)
        try:
            return explorer.explore_all()
        except TooMany:
            return None
        finally:
            self._left -= len(explorer.found)


ONCE = "then"
"""The counter of limit edges, of which a run takes at most one."""
MOST_ROUNDS = 100
"""The most passes over all nodes until the promises have settled."""
MOST_STEPS = 1_000_000
"""The most steps over edges to find the heaviest cycles."""
NOTHING = Fraction(0)


class _Prices:
    """The heaviest move over each edge in any configuration, and what its revisions cost."""

    def __init__(
        self, variables: Variables, plans: Iterable[Sequence[Move]], aim: Aim, start: str
    ) -> None:
        """`plans` has all moves that runs can take, and may have more."""
        self._graph = graph = variables.graph
        self._start = start
        self._nodes = graph.nodes_last_first
        self._to = graph.junctions.to
        self._ending = dict.fromkeys(self._nodes, NOTHING)
        """By node, the heaviest move with which a run is suspended there."""
        self._heaviest: dict[Edge, Fraction] = {}
        for moves in plans:
            for move in moves:
                self._weigh(move.edge, Fraction(aim.weight(move)), moves)
        ways = graph.junctions.ways
        self._ways = {node: [e for e in ways[node] if e in self._heaviest] for node in self._nodes}
        reset = {counter for edge in graph.edges for counter in edge.resets}
        self._caps = {c: variables.inputs.most(c) for c in graph.caps if c not in reset}
        self._caps[ONCE] = 1
        self._spending = {e: some for e in self._heaviest if (some := self._counters(e))}

    def _weigh(self, edge: Edge | None, weight: Fraction, moves: Sequence[Move]) -> None:
        if edge is not None:
            self._heaviest[edge] = max(weight, self._heaviest.get(edge, NOTHING))
            return
        for source in {move.edge.source for move in moves if move.edge} or self._graph.states:
            for node in self._graph.junctions.all_of(source):
                self._ending[node] = max(weight, self._ending[node])

    def _counters(self, edge: Edge) -> Sequence[str]:
        """The counters without a reset that an edge spends."""
        if edge.event == "limit":
            return (ONCE,)
        return [counter for counter in edge.counters if counter in self._caps]

    def at_most(self) -> Number:
        """The total that no path from the start exceeds."""
        gains = (self._gains_of_cycles(), self._gains_of_the_rest())
        rates = (self._rates(gain) for gain in gains if gain is not None)
        most = min(found for one in rates if (found := self._bound(one)) is not None)
        return most.numerator if most.denominator == 1 else float(most)

    def _gains_of_cycles(self) -> Mapping[Edge, Fraction] | None:
        """The heaviest cycle over each edge that spends something and forward edges."""
        targets = dict.fromkeys(map(self._to, self._spending))
        if len(targets) * len(self._heaviest) > MOST_STEPS:
            return None
        longest = {target: self._longest_from(target) for target in targets}

        def gain(edge: Edge) -> Fraction:
            nodes = self._graph.junctions.all_of(edge.source)
            known = longest[self._to(edge)]
            return max(
                (known[n] + self._heaviest[edge] for n in nodes if n in known), default=NOTHING
            )

        return {edge: gain(edge) for edge in self._spending}

    def _longest_from(self, entry: str) -> Mapping[str, Fraction]:
        """The weight of the heaviest forward path from an entry to each node."""
        longest = {entry: NOTHING}
        for node in reversed(self._nodes):
            for edge in self._ways[node] if node in longest else ():
                if edge.forward:
                    total = longest[node] + self._heaviest[edge]
                    target = self._to(edge)
                    longest[target] = max(longest.get(target, NOTHING), total)
        return longest

    def _gains_of_the_rest(self) -> Mapping[Edge, Fraction]:
        """The heaviest forward path to an end over each edge; no cycle gains more than these."""
        longest = dict.fromkeys(self._nodes, NOTHING)
        for node in self._nodes:
            ways = [self._heaviest[e] + longest[self._to(e)] for e in self._ways[node] if e.forward]
            longest[node] = max([*ways, self._ending[node]])
        return {edge: self._heaviest[edge] + longest[self._to(edge)] for edge in self._spending}

    def _rates(self, gains: Mapping[Edge, Fraction]) -> Mapping[str, Fraction]:
        """The rates of counters at which each edge costs what it gains, worth the least.

        The total pays a part of all edges that spend it; one other counter of each edge pays the
        rest.
        """
        of_total = [(gains[e], len(some)) for e, some in self._spending.items() if TOTAL in some]
        alone = max((gain for gain, counters in of_total if counters == 1), default=NOTHING)
        shares = {alone, *(gain for gain, _ in of_total if gain > alone)}
        return min((self._shared(gains, share) for share in shares), key=self._worth)

    def _shared(self, gains: Mapping[Edge, Fraction], share: Fraction) -> Mapping[str, Fraction]:
        rates: dict[str, Fraction] = {TOTAL: share}
        for edge, counters in self._spending.items():
            if others := [counter for counter in counters if counter != TOTAL]:
                rest = gains[edge] - share * (TOTAL in counters)
                rates[others[0]] = max(rest, rates.get(others[0], NOTHING))
        return rates

    def _worth(self, rates: Mapping[str, Fraction]) -> Fraction:
        return sum((rate * self._caps.get(name, 0) for name, rate in rates.items()), NOTHING)

    def _bound(self, rates: Mapping[str, Fraction]) -> Fraction | None:
        """The bound at these rates; None if some cycle gains more than it costs."""
        cost = {
            edge: sum((rates.get(counter, NOTHING) for counter in self._counters(edge)), NOTHING)
            for edge in self._heaviest
        }
        promised = dict(self._ending)
        for _ in range(MOST_ROUNDS):
            is_settled = True
            for node in self._nodes:
                for edge in self._ways[node]:
                    total = self._heaviest[edge] + promised[self._to(edge)] - cost[edge]
                    if total > promised[node]:
                        promised[node], is_settled = total, False
            if is_settled:
                return promised[self._start] + self._worth(rates)
        return None
