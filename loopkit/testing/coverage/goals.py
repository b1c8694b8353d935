"""Goals of coverage: states, transitions and caps, where they are declared, and their names."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal

from loopkit.document.document import DocPath
from loopkit.language.load import Loaded
from loopkit.machine.edges import TOTAL, Edge
from loopkit.machine.graph import Graph
from loopkit.text import one_line

GoalKind = Literal["state", "transition", "cap"]


@dataclass(frozen=True, slots=True)
class Goal:
    """One thing that a run of a case reaches or does not."""

    kind: GoalKind
    name: str
    """The state; the id of the edge; for one declaration of edges in many states, its path."""
    at: DocPath
    """Where the machine file declares it."""
    edges: tuple[str, ...] = ()
    """The edges, any one of which reaches the goal: when it is taken, or for a cap when it has no
    room as its state decides. Empty for a state."""


THEN: DocPath = ("limits", "then")


def goals_of(loaded: Loaded) -> tuple[Goal, ...]:
    """Everything that cases of the machine can cover, in the order of its file.

    `limits.then` is one goal, though every agent, run and validate state has an edge of it.
    """
    graph = Graph(loaded.machine)
    goals = [Goal("state", name, ("states", name)) for name in graph.states]
    for edge in graph.edges:
        if edge.event != "limit":
            goals.append(Goal("transition", edge.id, edge.path, (edge.id,)))
    if limits := tuple(edge.id for edge in graph.edges if edge.event == "limit"):
        goals.append(Goal("transition", ".".join(map(str, THEN)), THEN, limits))
    for edge in graph.edges:
        if edge.back:
            goals.append(Goal("cap", edge.id, _cap_path(loaded, edge), (edge.id,)))
    return tuple(goals)


def _cap_path(loaded: Loaded, edge: Edge) -> DocPath:
    """The path of the edge's own bound or its budget's name, or else of the edge."""
    document = loaded.source.document
    written = ((*edge.path, key) for key in ("max", "budget"))
    return next((path for path in written if document.node(path) is not None), edge.path)


def goal_text(graph: Graph, goal: Goal) -> str:
    """`state escalated`, `validate[1] → escalated (cap_reached or stalled)`, `cap of …`."""
    if goal.kind == "state":
        return f"state {goal.name}"
    edge = graph.by_id[goal.edges[0]]
    transition = f"{goal.name} → {edge.target}"
    if goal.kind == "cap":
        bounds = ", ".join(_bound(graph, edge, name) for name in edge.counters)
        return f"cap of {transition} ({bounds})"
    when = _when(graph, edge)
    return f"{transition} ({when})" if when else transition


def goal_line(loaded: Loaded, goal: Goal) -> int:
    """The line of the machine's file that declares the goal, from 1."""
    span = loaded.source.problem(goal.at, "", "", key=True).span
    assert span is not None
    return span.line


def ways_to_states(graph: Graph, never_taken: Collection[str]) -> dict[str, str]:
    """For each state the one before it on a shortest way from the start, which has "" before it.

    `never_taken` are the ids of edges that no run takes.
    """
    before = {graph.machine.start: ""}
    front = [graph.machine.start]
    for state in front:
        for edge in graph.outgoing[state]:
            is_new = edge.target in graph.states and edge.target not in before
            if is_new and edge.id not in never_taken:
                before[edge.target] = state
                front.append(edge.target)
    return before


def way_to_goal(graph: Graph, goal: Goal, before: Mapping[str, str]) -> list[str]:
    """The states on a shortest way to a goal, from the start to the state that decides for it."""
    sources = [graph.by_id[edge].source for edge in goal.edges]
    ways = [_way(before.get(state, ""), before) for state in sources or [goal.name]]
    if goal.kind != "state":
        ways = [[*way, source] for way, source in zip(ways, sources, strict=True)]
    return min(ways, key=len)


def _way(last: str, before: Mapping[str, str]) -> list[str]:
    way: list[str] = []
    while last:
        way.append(last)
        last = before[last]
    return way[::-1]


def _when(graph: Graph, edge: Edge) -> str:
    if edge.event == "limit":
        return "a limit is reached"
    if edge.event != "done":
        return f"a {edge.event} error"
    if edge.guard is not None:
        return one_line(edge.guard)
    return "otherwise" if graph.on(edge.source, "done")[0] is not edge else ""


def _bound(graph: Graph, edge: Edge, counter: str) -> str:
    name = "max" if counter == edge.id else counter.replace(":", " ")
    return f"{'total_revisions' if counter == TOTAL else name} {graph.caps[counter]}"
