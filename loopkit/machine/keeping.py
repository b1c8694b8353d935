"""Keeping: the states that may keep what they have made where they are entered again."""

from __future__ import annotations

from loopkit.machine.graph import Graph
from loopkit.machine.knots import knots


def keeping_states(graph: Graph) -> frozenset[str]:
    """The states that may be kept, of those that a forward edge can lead to again."""
    may_be_kept = {name for name in graph.states if graph.machine.may_be_kept(name)}
    if not may_be_kept:
        return frozenset()
    leads = {name: [edge.target for edge in ways] for name, ways in graph.outgoing.items()}
    found = knots({name: [to for to in led if to in leads] for name, led in leads.items()})
    knot_of = {name: number for number, knot in enumerate(found) for name in knot}
    again = (
        edge.target
        for edge in graph.edges
        if not edge.back and knot_of.get(edge.target) == knot_of[edge.source]
    )
    return frozenset(may_be_kept.intersection(again))
