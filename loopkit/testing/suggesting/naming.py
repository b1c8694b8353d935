"""Names and descriptions of suggested cases."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from loopkit.machine.edges import Edge
from loopkit.machine.graph import Graph
from loopkit.scenario.cases import MAX_NAME
from loopkit.testing.coverage.goals import Goal


def name_of(graph: Graph, goal: Goal, taken: Collection[str]) -> str:
    """A name for the case of a goal that no other case has."""
    name = _name(graph, goal)[: MAX_NAME - 4].strip()
    numbered = (f"{name} {number}" for number in range(2, len(taken) + 3))
    return next(one for one in (name, *numbered) if one not in taken)


def _name(graph: Graph, goal: Goal) -> str:
    if goal.kind == "state":
        return f"comes to {goal.name}"
    edge = graph.by_id.get(goal.edges[0]) if goal.edges else None
    if edge is None or (goal.kind == "transition" and edge.event == "limit"):
        return "a limit is reached"
    if goal.kind == "cap":
        return f"no room from {_edge_text(graph, edge)}"
    after = {"done": "", "limit": ""}.get(edge.event, f" after a {edge.event} error")
    return f"{_edge_text(graph, edge)}{after}"


def _edge_text(graph: Graph, edge: Edge) -> str:
    """`check to done`, with the number of the transition where several lead there."""
    alike = [e for e in graph.on(edge.source, edge.event) if e.target == edge.target]
    number = f" by way {alike.index(edge) + 1}" if len(alike) > 1 else ""
    return f"{edge.source} to {edge.target}{number}"


def description_of(goals: Sequence[Goal]) -> str:
    """A sentence on what a case covers that none before it did."""
    names_by_verb = [
        ("takes", [goal.name for goal in goals if goal.kind == "transition"]),
        ("comes to", [goal.name for goal in goals if goal.kind == "state"]),
        ("uses up the cap of", [goal.name for goal in goals if goal.kind == "cap"]),
    ]
    parts = [f"{verb} {', '.join(names)}" for verb, names in names_by_verb if names]
    return f"Suggested: {'; '.join(parts)}."
