"""Settling what `check` asks about a machine by exploring some of its configurations.

The picture shows that no run is stuck; runs that take each transition and use up each counter show
that all of these are needed. If one is not found, all configurations have to be explored.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from heapq import heappop, heappush

from loopkit.machine.edges import Edge
from loopkit.machine.graph import Graph
from loopkit.proof.bounds.configurations import Explorer
from loopkit.proof.bounds.exact import UNKNOWN, Picture
from loopkit.proof.bounds.result import Bounds, Range

NOT_ASKED = Range(None, UNKNOWN)
MOST_WALKS = 50
"""The most runs that are followed; the cost of each is proportional to the machine."""
MOST_CLIMBED = 500
"""The most configurations that are explored for a counter that one run does not use up."""
LONGEST_WALK = 300
"""The most steps of a run that is followed."""


def settle(seen: Explorer, explorer: Explorer, picture: Picture) -> Bounds | None:
    """The bounds of a machine without extremes; None if they cannot be settled this way.

    No run is stuck, and a run is found for each remaining transition and counter. Transitions that
    the picture never takes are never taken, and counters that only these spend are never used up.
    `seen` is an explorer that has found too many configurations, whose moves count as taken;
    `explorer` explores further.
    """
    if picture.explored is None or picture.explored.dead:
        return None
    graph, untaken = explorer.plans.variables.graph, picture.untaken()
    moves = (move for moves in seen.so_far.every_plan() for move in moves)
    search = _Search(explorer, {*untaken, *(move.edge.id for move in moves if move.edge)})
    spent = {counter for e in graph.edges if e.id not in untaken for counter in e.counters}
    if not all(search.takes(edge) for edge in graph.edges):
        return None
    if not all(search.uses_up(counter) for counter in spent):
        return None
    cap = explorer.plans.variables.inputs.cap
    unfilled = {c: 0 for c in graph.caps if c not in spent and cap(c).high > 0}
    return Bounds(NOT_ASKED, NOT_ASKED, NOT_ASKED, untaken=untaken, unfilled=unfilled)


class _Search:
    """Follows runs to transitions and counters that have not been seen yet."""

    def __init__(self, explorer: Explorer, seen: Collection[str]) -> None:
        self._explorer = explorer
        self._plans = explorer.plans
        self._graph: Graph = explorer.plans.variables.graph
        self._seen = {*seen}
        self._walks_left = MOST_WALKS

    def takes(self, edge: Edge) -> bool:
        """Whether some run takes an edge."""
        return self._walk((edge,), lambda: edge.id in self._seen)

    def uses_up(self, counter: str) -> bool:
        """Whether some run uses up a counter."""
        if self._plans.variables.inputs.cap(counter).high == 0:
            return True
        spending = [edge for edge in self._graph.edges if counter in edge.counters]
        return self._walk(spending, lambda: self._plans.is_used_up(counter)) or self._climb(counter)

    def _climb(self, counter: str) -> bool:
        """Explore some configurations, those in which most of a counter is spent first."""
        front = [(0, at) for at in self._explorer.starts()]
        known = {at for _, at in front}
        for _ in range(MOST_CLIMBED):
            if not front:
                return False
            unspent, at = heappop(front)
            for move, to in self._explorer.arcs(at):
                if to not in known and move.edge is not None:
                    known.add(to)
                    self._seen.add(move.edge.id)
                    heappush(front, (unspent - (counter in move.edge.counters), to))
            if self._plans.is_used_up(counter):
                return True
        return False

    def _walk(self, wanted: Collection[Edge], is_found: Callable[[], bool]) -> bool:
        """Follow a run that takes some edges as often as it can."""
        if is_found():
            return True
        if not self._walks_left:
            return False
        self._walks_left -= 1
        ids = {edge.id for edge in wanted}
        far = self._distances(wanted)
        for start in self._explorer.starts():
            at = start
            for _ in range(LONGEST_WALK):
                ways = [(move.edge, to) for move, to in self._explorer.arcs(at) if move.edge]
                self._seen |= {edge.id for edge, _ in ways}
                if is_found():
                    return True
                # A wanted edge may need revisions of its state first, and room in other counters.
                is_there = far.get(self._explorer.state(at)) == 0
                onward = [
                    (edge.id not in ids, edge.back != is_there, far.get(edge.target, len(far)), to)
                    for edge, to in ways
                ]
                if not onward:
                    break
                at = min(onward)[3]
        return False

    def _distances(self, wanted: Collection[Edge]) -> Mapping[str, int]:
        """How many edges lie between each state and one from which a wanted edge leads."""
        far = dict.fromkeys((edge.source for edge in wanted), 0)
        front = list(far)
        for name in front:
            for edge in self._graph.incoming[name]:
                if edge.source not in far:
                    far[edge.source] = far[name] + 1
                    front.append(edge.source)
        return far
