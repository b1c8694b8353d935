"""Paths through a machine: the shortest one to a goal, and how a message shows it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from loopkit.machine.edges import Edge
from loopkit.machine.graph import Graph

StatePath = tuple[str, ...]


def arrows(way: Iterable[str]) -> str:
    """`draft → validate → approval`; of a long path only its ends."""
    states = list(way)
    if len(states) > 9:
        states = [*states[:4], "…", *states[-4:]]
    return " → ".join(states)


def on_path(way: StatePath) -> str:
    """`on the path draft → validate`, for the end of a sentence."""
    return f"on the path {arrows(way)}" if len(way) > 1 else f"when a run starts with `{way[0]}`"


def shortest_path(
    graph: Graph, start: str, goal: Callable[[str], bool], follows: Callable[[Edge], bool]
) -> StatePath | None:
    """The states of a shortest path from `start` to a goal, over edges that `follows` accepts."""
    before: dict[str, str | None] = {start: None}
    front = [start]
    for name in front:
        if goal(name):
            way = [name]
            while (earlier := before[way[-1]]) is not None:
                way.append(earlier)
            return tuple(reversed(way))
        for edge in graph.outgoing.get(name, ()):
            if edge.target in graph.states and edge.target not in before and follows(edge):
                before[edge.target] = name
                front.append(edge.target)
    return None


def leading_to(graph: Graph, goals: set[str]) -> set[str]:
    """Every state from which some path leads to a goal, the goals included."""
    seen, front = set(goals), list(goals)
    while front:
        sources = {edge.source for edge in graph.incoming.get(front.pop(), ())} - seen
        seen |= sources
        front += sources
    return seen
