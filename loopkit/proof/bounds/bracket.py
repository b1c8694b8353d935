"""Bounds of a machine with too many configurations to explore all: what no run exceeds.

A picture is the graph of a machine without counters, where each may have room or none at any time.
It is small, and what never happens in it happens in no run. How often runs go back in it is bounded
by the caps of counters.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain

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
        heaviest = _Heaviest(self._explorer.plans.variables, self._moves(), aim, self._start)
        return UNKNOWN.replace(total=min(heaviest.by_paths(), heaviest.by_visits()))

    def best(self, measure: Measure, ends: Collection[str]) -> Extreme | None:
        return least_of(self._explorer.anew(), self._moves(), measure, ends, MOST_SEARCHED)

    def _moves(self) -> Iterator[tuple[str, Sequence[Move]]]:
        """All moves that runs can take, and maybe more, with their states."""
        if self._picture is not None:
            yield from self._picture.every_plan()
            return
        for name in self._graph.states:
            yield name, self._explorer.plans.moves.anything(name)

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
        fewer = Variables(known.analysis, known.given, counted)
        explorer = Explorer(Plans(Moves(fewer, moves.asking)), self._left, self._explorer.present)
        try:
            return explorer.explore_all()
        except TooMany:
            return None
        finally:
            self._left -= len(explorer.found)


ONCE = "then"
"""The counter of limit edges, of which a run takes at most one."""


class _Heaviest:
    """The heaviest move over each edge in any configuration, and the most that these come to.

    A path is a forward one, and another one after each edge that goes back or leads to the state
    after a limit. Between two visits of a node a path takes such an edge from there, or from a node
    behind it, to there or to a node before it.
    """

    def __init__(
        self,
        variables: Variables,
        plans: Iterable[tuple[str, Sequence[Move]]],
        aim: Aim,
        start: str,
    ) -> None:
        """`plans` has all moves that runs can take, and may have more."""
        graph = variables.graph
        junctions = graph.junctions
        self._start = start
        self._to = junctions.to
        self._ending: dict[str, Number] = dict.fromkeys(graph.states, 0)
        """By state, the heaviest move with which a run is suspended there."""
        heaviest: dict[Edge, Number] = {}
        for name, moves in plans:
            for move in moves:
                weight = aim.weight(move)
                if move.edge is None:
                    self._ending[name] = max(weight, self._ending[name])
                else:
                    heaviest[move.edge] = max(weight, heaviest.get(move.edge, 0))
        used = {start, *chain.from_iterable(map(junctions.nodes_of, graph.states))}
        self._nodes = {
            node: [(edge, heaviest[edge]) for edge in junctions.ways[node] if edge in heaviest]
            for node in graph.nodes_last_first
            if node in used
        }
        """The ways out of each node with their weights, the last node first."""
        self._state_of = junctions.state_of
        reset = {counter for edge in graph.edges for counter in edge.resets}
        self._caps = {c: variables.inputs.most(c) for c in graph.caps if c not in reset}
        self._caps[ONCE] = 1
        self._spending = [edge for edge in heaviest if not edge.forward]

    def by_paths(self) -> Number:
        """The heaviest forward path, and those after all edges that may be taken."""
        longest = self._longest()
        return longest[self._start] + self._most({e: longest[self._to(e)] for e in self._spending})

    def by_visits(self) -> Number:
        """One visit of each node, and another one of all that lie between the ends of an edge."""
        place = {node: -at for at, node in enumerate(self._nodes)}
        dearest = {
            node: max([self._ending[self._state_of(node)], *(weight for _, weight in ways)])
            for node, ways in self._nodes.items()
        }
        last = {e: place[node] for node in reversed(self._nodes) for e, _ in self._nodes[node]}
        between = {
            edge: sum(
                weight
                for node, weight in dearest.items()
                if place[self._to(edge)] <= place[node] <= last[edge]
            )
            for edge in self._spending
        }
        return sum(dearest.values()) + self._most(between)

    def _longest(self) -> Mapping[str, Number]:
        """The weight of the heaviest forward path from each node, with the move at its end."""
        longest: dict[str, Number] = {}
        for node, ways in self._nodes.items():
            through = (
                weight + (longest[self._to(edge)] if edge.forward else 0) for edge, weight in ways
            )
            longest[node] = max([self._ending[self._state_of(node)], *through])
        return longest

    def _most(self, gains: Mapping[Edge, Number]) -> Number:
        """The most that edges gain together, each as often as the caps of two of its counters
        allow: the total, and the smallest of the others."""
        left = dict(self._caps)
        most: Number = 0
        for edge in sorted(gains, key=gains.__getitem__, reverse=True):
            counters = (ONCE,) if edge.event == "limit" else edge.counters
            own = [counter for counter in counters if counter in left and counter != TOTAL]
            spent = [min(own, key=self._caps.__getitem__)] if own else []
            spent += [TOTAL] if TOTAL in left and TOTAL in counters else []
            times = min(left[counter] for counter in spent)
            for counter in spent:
                left[counter] -= times
            most += times * gains[edge]
        return most
