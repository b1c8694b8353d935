"""Names of goals in messages, and the line that declares each."""

from __future__ import annotations

from loopkit.language.load import Loaded
from loopkit.machine.graph import TOTAL, Edge, Graph
from loopkit.testing.goals import Goal
from loopkit.text import one_line


def goal_text(graph: Graph, goal: Goal) -> str:
    """`state escalated`, `validate[1] → escalated (cap_reached or stalled)`, `cap of …`."""
    if goal.kind == "state":
        return f"state {goal.name}"
    edge = graph.by_id[goal.edges[0]]
    way = f"{goal.name} → {edge.target}"
    if goal.kind == "cap":
        return f"cap of {way} ({', '.join(_bound(graph, edge, name) for name in edge.counters)})"
    when = _when(graph, edge)
    return f"{way} ({when})" if when else way


def goal_line(loaded: Loaded, goal: Goal) -> int:
    """The line of the machine's file that declares the goal, from 1."""
    span = loaded.source.problem(goal.at, "", "", key=True).span
    assert span is not None
    return span.line


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
