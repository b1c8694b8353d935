"""The strongly connected components of a graph: the sets of nodes that all lead to each other."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from typing import TypeVar

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
    back: dict[Member, list[Member]] = {node: [] for node in leads}
    for node, following in leads.items():
        for other in following:
            back[other].append(node)
    yield from map(set, _trees(finished[::-1], back.__getitem__))


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
