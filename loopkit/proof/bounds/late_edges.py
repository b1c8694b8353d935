"""Late revise edges, which open only when an earlier one of their state is used up."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

from loopkit.machine.edges import Edge
from loopkit.machine.graph import Graph
from loopkit.values import Value


class Opening(Value, frozen=True):
    """Two revise edges of one state: the later one is closed until the first has used up its cap.

    So `cap of the first × times of the later <= cap of the later × times of the first`.
    """

    first: Edge
    later: Edge
    first_cap: int
    later_cap: int

    @property
    def name(self) -> str:
        """A unique name."""
        return f"{self.first.id} opens {self.later.id}"

    def uses(self, edge: Edge) -> int:
        """What an edge adds to the left side less what it adds to the right one."""
        if edge == self.later:
            return self.first_cap
        return -self.later_cap if edge == self.first else 0


def openings(
    graph: Graph, written: Mapping[str, int | str], caps: Mapping[str, int]
) -> Sequence[Opening]:
    """The openings of a machine. `written` has its caps, `caps` the maxima of those never reset."""
    return [
        Opening(first, later, int(written[first.id]), min(caps[c] for c in later.counters))
        for first, later in _pairs(graph)
        if isinstance(written.get(first.id), int)
        and caps.keys() >= {*first.counters, *later.counters}
    ]


def _pairs(graph: Graph) -> Iterator[tuple[Edge, Edge]]:
    """Pairs of an edge that only its own cap can close before the later one, and the later one."""
    for edges in graph.revise_edges.values():
        for first, later in combinations(edges, 2):
            is_before = first.guard is None or first.guard == later.guard
            others = {*first.counters} - {first.id}
            if is_before and first.id in first.counters and others <= {*later.counters}:
                yield first, later
