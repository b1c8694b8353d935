"""Settling what `check` asks of a machine by a look at some of its configurations.

The picture shows that no run is stuck; runs that take each transition and use up each counter show
that all of these are needed. Where one is not found, all configurations have to be looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from heapq import heappop, heappush

from loopkit.machine.edges import Edge
from loopkit.machine.graph import Graph
from loopkit.proof.bounds.configurations import Explorer
from loopkit.proof.bounds.exact import UNKNOWN
from loopkit.proof.bounds.picture import Picture
from loopkit.proof.bounds.result import Bounds, Range

NOT_ASKED = Range(None, UNKNOWN)
MOST_WALKS = 50
"""Runs that are followed; each costs in proportion to the machine."""
MOST_CLIMBED = 500
"""Configurations that are looked at for a counter where one run does not use it up."""
LONGEST_WALK = 300
"""Steps of a run by which a transition or a counter is looked for."""


def settled(seen: Explorer, explorer: Explorer, picture: Picture) -> Bounds | None:
    """What is odd about a machine, where no run is stuck and a run is found for all the rest.

    Transitions that even the picture never takes are never taken, and neither are the counters used
    up that these alone spend. `seen` is an explorer that has found too many configurations: what it
    has seen counts; `explorer` looks further.
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
    """Runs that are led to what has not been seen yet."""

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
        """Look at some configurations, those first in which most is spent of a counter."""
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
                # What is wanted may be behind revisions of its state, and needs the room of others.
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
