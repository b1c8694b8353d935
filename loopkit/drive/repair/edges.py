"""Edges of two definitions: which of them are the same, and what a route has spent by them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from loopkit.machine.edges import Edge
from loopkit.machine.graph import Graph

_Sort = tuple[str, str, str, str, bool]


def same_edges(old: Graph, new: Graph) -> dict[str, str]:
    """The id in the new graph of every edge of the old one that is still there.

    An edge is known by its source, event, guard and target, wherever it stands. Several edges that
    have these in common are matched in order.
    """
    known = _edges_by_sort(new)
    return {edge.id: known[at].id for at, edge in _edges_by_sort(old).items() if at in known}


def _edges_by_sort(graph: Graph) -> dict[tuple[_Sort, int], Edge]:
    seen: Counter[_Sort] = Counter()
    found: dict[tuple[_Sort, int], Edge] = {}
    for edge in graph.edges:
        sort = (
            edge.source,
            edge.event,
            " ".join((edge.guard or "").split()),
            edge.target,
            edge.back,
        )
        found[sort, seen[sort]] = edge
        seen[sort] += 1
    return found


def counters_of_route(route: Iterable[str], graph: Graph) -> dict[str, int]:
    """What a route has spent of each counter of a graph, by the counters that its edges own now."""
    spent: dict[str, int] = {}
    edges: Mapping[str, Edge] = graph.by_id
    for edge in map(edges.__getitem__, route):
        spent.update(dict.fromkeys(edge.resets, 0))
        for counter in edge.counters:
            spent[counter] = spent.get(counter, 0) + 1
    return spent
