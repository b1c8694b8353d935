"""The first author of a machine: whom every run asks before anybody else who reads feedback."""

from __future__ import annotations

from loopkit.machine.graph import Graph


def first_author(graph: Graph) -> str | None:
    """The first state on every path from the start to an end that reads feedback, if any does."""
    authors = (name for name in reversed(graph.last_first) if graph.states[name].reads_feedback)
    return next((name for name in authors if not _is_passed_by(graph, name)), None)


def _is_passed_by(graph: Graph, name: str) -> bool:
    """Whether a run can come to an end without a state."""
    start = graph.machine.start
    others = graph.reachable(start, without=name) if name != start else set()
    return any(graph.states[state].ends for state in others)
