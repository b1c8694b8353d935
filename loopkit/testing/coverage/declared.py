"""Declared goals: a machine's states, its transitions, and the cap of each revise edge."""

from __future__ import annotations

from collections.abc import Iterator

from loopkit.language.load import DocPath, Loaded
from loopkit.machine.graph import Edge, Graph
from loopkit.testing.goals import Goal

THEN: DocPath = ("limits", "then")


def goals_of(loaded: Loaded) -> tuple[Goal, ...]:
    """Everything that cases of the machine can cover, in the order of its file.

    `limits.then` is one goal, though every agent, run and validate state has an edge of it.
    """
    graph = Graph(loaded.machine)
    return (*_states(graph), *_transitions(graph), *_caps(loaded, graph))


def _states(graph: Graph) -> Iterator[Goal]:
    for name in graph.states:
        yield Goal("state", name, ("states", name))


def _transitions(graph: Graph) -> Iterator[Goal]:
    for edge in graph.edges:
        if edge.event != "limit":
            yield Goal("transition", edge.id, edge.path, (edge.id,))
    if limits := tuple(edge.id for edge in graph.edges if edge.event == "limit"):
        yield Goal("transition", ".".join(map(str, THEN)), THEN, limits)


def _caps(loaded: Loaded, graph: Graph) -> Iterator[Goal]:
    for edge in graph.edges:
        if edge.back:
            yield Goal("cap", edge.id, _cap_path(loaded, edge), (edge.id,))


def _cap_path(loaded: Loaded, edge: Edge) -> DocPath:
    """Where the edge's own bound is written, or its budget's name, or else the edge."""
    document = loaded.source.document
    written = ((*edge.path, key) for key in ("max", "budget"))
    return next((path for path in written if document.node(path) is not None), edge.path)
