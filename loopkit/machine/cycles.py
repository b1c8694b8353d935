"""Paths of graphs: their cycles, their strongly connected components, and what holds on paths.

A component is a set of nodes that all lead to each other. What holds at each state of a machine, on
every path to it or on some path, is one bit of a whole number.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from heapq import heappop, heappush
from typing import Any, TypeVar

from loopkit.values import Value

Node = TypeVar("Node", bound=tuple[Any, ...])
Leads = Mapping[Node, Collection[Node]]

MAX_TOLD = 50
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
    cycles = (_cycle_through(node, inside) for node in tried)
    return min(cycles, key=lambda cycle: (len(cycle), cycle))


def _cycle_through(start: Node, leads: Leads[Node]) -> list[Node]:
    """A shortest cycle through a node, from its least one on; of several the first by order."""
    came_from: dict[Node, Node] = {}
    waiting = [start]
    for node in waiting:
        for following in leads[node]:
            if following == start:
                path = [node]
                while path[-1] != start:
                    path.append(came_from[path[-1]])
                least = path.index(min(path))
                return path[least::-1] + path[:least:-1]
            if following not in came_from:
                came_from[following] = node
                waiting.append(following)
    return waiting


def cycle_text(words: Sequence[str]) -> str:
    """A cycle for a message: its nodes, back to the first one."""
    listed = " → ".join((*words[:MAX_TOLD], words[0]))
    rest = len(words) - MAX_TOLD
    return listed if rest <= 0 else f"{listed}, through {rest:,} more behind the first {MAX_TOLD}"


Member = TypeVar("Member", bound=Hashable)


def is_cyclic(component: Collection[Member], leads: Mapping[Member, Collection[Member]]) -> bool:
    """Whether a component has a cycle; a single node has one only if it leads to itself."""
    return len(component) > 1 or any(node in leads[node] for node in component)


def strong_components(leads: Mapping[Member, Collection[Member]]) -> Iterator[set[Member]]:
    """The sets of nodes that lead to each other, after Kosaraju: forwards, then backwards.

    A component comes after all that lead to it.
    `graphlib` would name one cycle of the whole graph, which depends on the order of the edges.
    """
    finished = [node for tree in _trees(leads, leads.__getitem__) for node in tree]
    yield from map(set, _trees(finished[::-1], reverse(leads).__getitem__))


def reverse(leads: Mapping[Member, Collection[Member]]) -> dict[Member, list[Member]]:
    """The graph with each edge turned round; every node is a key of `leads`."""
    back: dict[Member, list[Member]] = {node: [] for node in leads}
    for node, following in leads.items():
        for other in following:
            back[other].append(node)
    return back


def _trees(
    roots: Collection[Member], leads: Callable[[Member], Collection[Member]]
) -> Iterator[list[Member]]:
    """The nodes that each root reaches and no earlier root did, in the order of completion."""
    seen: set[Member] = set()
    for root in roots:
        if root in seen:
            continue
        seen.add(root)
        done, open_ = [], [(root, iter(leads(root)))]
        while open_:
            node, rest = open_[-1]
            following = next((other for other in rest if other not in seen), None)
            if following is None:
                done.append(node)
                open_.pop()
            else:
                seen.add(following)
                open_.append((following, iter(leads(following))))
        yield done


class Step(Value, frozen=True):
    """What an edge changes: first it clears the bits `lost`, then it sets the bits `gained`."""

    source: str
    target: str
    lost: int
    gained: int


def on_every_path(
    order: Sequence[str], start: str, steps: Iterable[Step], first: int = 0
) -> dict[str, int]:
    """The bits that hold at each state on every path to it.

    `first` are those that hold at the start, and `order` names all states; this is fastest if most
    of them precede those that they lead to.
    """
    onward: dict[str, list[Step]] = {name: [] for name in order}
    every = first
    for step in steps:
        onward[step.source].append(step)
        every |= step.gained
    holds = dict.fromkeys(order, every) | {start: first}
    rank = {name: number for number, name in enumerate(order)}
    waiting, queued = list(range(len(order))), set(order)
    while waiting:
        name = order[heappop(waiting)]
        queued.remove(name)
        for step in onward[name]:
            narrowed = holds[step.target] & ((holds[name] & ~step.lost) | step.gained)
            if narrowed != holds[step.target]:
                holds[step.target] = narrowed
                if step.target not in queued:
                    queued.add(step.target)
                    heappush(waiting, rank[step.target])
    return holds


def on_some_path(states: Iterable[str], steps: Iterable[Step]) -> dict[str, int]:
    """The bits that some path to each state gains; losses are ignored."""
    coming: dict[str, list[Step]] = {name: [] for name in states}
    leads: dict[str, list[str]] = {name: [] for name in coming}
    for step in steps:
        coming[step.target].append(step)
        leads[step.source].append(step.target)
    holds: dict[str, int] = {}
    for component in strong_components(leads):
        found = 0
        for step in (step for name in component for step in coming[name]):
            found |= step.gained | holds.get(step.source, 0)
        holds |= dict.fromkeys(component, found)
    return holds
