"""The cycles of a graph: one for each set of nodes that all lead to each other."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeVar

from loopkit.machine.components import is_cyclic, strong_components

Node = TypeVar("Node", bound=tuple[Any, ...])
Leads = Mapping[Node, Collection[Node]]

MAX_TOLD = 50
"""How many nodes of a cycle are named."""
MAX_STEPS = 300_000
"""How many edges are examined in search of cycles shorter than the first ones."""


def shortest_cycles(leads: Leads[Node], most: int) -> list[list[Node]]:
    """One shortest cycle of each component that has one, from its least node on, in their order.

    Every node is a key of `leads`. Of more than `most` components those with the least nodes
    count. In a component of many thousand edges only the least nodes are tried, so a cycle without
    them may be shorter. The order of keys and of what they lead to makes no difference.
    """
    cyclic = (one for one in strong_components(leads) if is_cyclic(one, leads))
    components = sorted(cyclic, key=min)[:most]
    return sorted(_shortest_cycle(one, leads, MAX_STEPS // len(components)) for one in components)


def _shortest_cycle(component: set[Node], leads: Leads[Node], steps: int) -> list[Node]:
    inside = {node: sorted(component & {*leads[node]}) for node in sorted(component)}
    size = sum(map(len, inside.values()))
    tried = list(inside)[: max(1, steps // size)]
    cycles = (_from_least(_cycle_through(node, inside)) for node in tried)
    return min(cycles, key=lambda cycle: (len(cycle), cycle))


def _cycle_through(start: Node, leads: Leads[Node]) -> list[Node]:
    """A shortest cycle through a node; of several, the one that the order gives first."""
    came_from: dict[Node, Node] = {}
    waiting = [start]
    for node in waiting:
        for following in leads[node]:
            if following == start:
                return _path(start, node, came_from)
            if following not in came_from:
                came_from[following] = node
                waiting.append(following)
    return waiting


def _path(start: Node, end: Node, came_from: Mapping[Node, Node]) -> list[Node]:
    path = [end]
    while path[-1] != start:
        path.append(came_from[path[-1]])
    return path[::-1]


def _from_least(cycle: list[Node]) -> list[Node]:
    at = cycle.index(min(cycle))
    return cycle[at:] + cycle[:at]


def cycle_text(words: Sequence[str]) -> str:
    """A cycle for a message: its nodes, back to the first one."""
    listed = " → ".join((*words[:MAX_TOLD], words[0]))
    rest = len(words) - MAX_TOLD
    return listed if rest <= 0 else f"{listed}, through {rest:,} more behind the first {MAX_TOLD}"
