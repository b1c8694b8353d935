"""The model of a diagram, for all formats: nodes and arrows, their texts and order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from loopkit.engine.state import RunState
from loopkit.machine.edges import ERROR_EVENTS, Edge
from loopkit.machine.graph import Graph
from loopkit.views.diagram.labels import edge_texts, error_texts, limit_texts, state_texts
from loopkit.views.diagram.marks import Mark, Marks

LIMIT = "(limit)"
"""The node from which `limits.then` is reached; a state can't have this name."""


@dataclass(frozen=True, slots=True)
class Node:
    """A state, or the node for all limits."""

    name: str
    kind: str
    """The kind of a state, `success` or `failure` for a final one, or `limit`."""
    title: str
    texts: tuple[str, ...]
    """Paragraphs under the title, in which no-break spaces tie words together."""
    visits: int = 0
    """How many times the run entered it."""
    here: str = ""
    """The run's status, such as `waiting`, if this is its active state."""
    mark: Mark | None = None
    """Whether cases cover it, if that is marked."""
    inner: Drawing | None = None
    """The machine that it runs, if it is drawn here: equal machines are drawn only once."""


@dataclass(frozen=True, slots=True)
class Arrow:
    """One edge, or several edges that are shown as one."""

    source: str | None
    """A node, or None for the start of all runs."""
    target: str | None
    """A node, or None for the end of all runs."""
    texts: tuple[str, ...] = ()
    """Paragraphs, as in a node."""
    edges: tuple[str, ...] = ()
    """The ids of the edges that it shows."""
    taken: int = 0
    """How many times the run took it."""
    marks: tuple[str, ...] = ()
    """Notes on what cases do not cover of it."""
    is_back: bool = False
    """Whether it leads back to revise."""


@dataclass(frozen=True, slots=True)
class Drawing:
    """A machine, with the path of a run through it or the coverage of its cases, if given."""

    machine: str
    nodes: tuple[Node, ...]
    arrows: tuple[Arrow, ...]
    run: str | None = None
    """The run whose visits and taken arrows are counted."""
    is_marked: bool = False
    """Whether it shows the coverage of cases."""


def drawing(
    graph: Graph,
    run: RunState | None = None,
    marks: Marks | None = None,
    status: str = "",
) -> Drawing:
    """The drawing of a machine; every edge of the graph is in exactly one arrow.

    The run, its status and the marks are those of the outermost machine.
    """
    return _drawing(graph, run, marks, {}, status)


def _drawing(
    graph: Graph,
    run: RunState | None,
    marks: Marks | None,
    drawn: dict[str, str],
    status: str = "",
) -> Drawing:
    """`drawn` has, for each machine that is drawn already, the name of the state around it."""
    way, marked = run or RunState(), marks or Marks()
    nodes = [
        _with_inner(graph, node, drawn)
        for node in _states(graph, way, marked, status or way.status)
    ]
    if any(edge.event == "limit" for edge in graph.edges):
        limits = tuple(limit_texts(graph.machine.limits))
        nodes.append(Node(LIMIT, "limit", "limit reached", limits))
    return Drawing(
        machine=graph.machine.label,
        nodes=tuple(nodes),
        arrows=tuple(_arrows(graph, _Marking(way.route, marked))),
        run=run.run if run else None,
        is_marked=marks is not None,
    )


@dataclass(frozen=True, slots=True)
class _Marking:
    """The data for the texts that a run or cases add to arrows."""

    route: Sequence[str]
    marks: Marks


def _states(graph: Graph, run: RunState, marks: Marks, status: str) -> Iterator[Node]:
    # Layouts visit nodes in this order, and treat an edge that closes a cycle as leading back. With
    # the targets of `revise` first, these are mostly just the revise edges.
    revised = {edge.target for edge in graph.edges if edge.back}
    for name in sorted(graph.states, key=lambda name: name not in revised):
        texts = tuple(state_texts(graph.machine, name))
        here = status if name == run.state else ""
        visits, mark = run.visits.get(name, 0), marks.states.get(name)
        yield Node(name, graph.states[name].drawn_as, name, texts, visits, here, mark)


def _with_inner(graph: Graph, node: Node, drawn: dict[str, str]) -> Node:
    child = graph.states[node.name].child
    if child is None:
        return node
    written = child.identity
    if written in drawn:
        return replace(node, texts=(*node.texts, f"drawn in {drawn[written]}"))
    drawn[written] = node.name
    return replace(node, inner=_drawing(Graph(child), None, None, drawn))


def _arrows(graph: Graph, marking: _Marking) -> Iterator[Arrow]:
    yield Arrow(None, graph.machine.start)
    for name in graph.states:
        for edge in graph.on(name, "done"):
            yield _arrow(name, [edge], edge_texts(graph, edge), marking)
        yield from _error_arrows(graph, name, marking)
    if limits := [edge for edge in graph.edges if edge.event == "limit"]:
        # Drawn once, because every agent, run and validate state has this edge.
        taken_in = [f"in {edge.source}" for edge in limits if edge.id in marking.route]
        yield _arrow(LIMIT, limits, ("at most once", *taken_in), marking)
    for name in graph.machine.finals:
        yield Arrow(name, None)


def _error_arrows(graph: Graph, name: str, marking: _Marking) -> Iterator[Arrow]:
    # Errors that lead forward to one state are one arrow; a revise edge has its own budget.
    alike: dict[str, list[Edge]] = {}
    for event in ERROR_EVENTS:
        for edge in graph.on(name, event):
            alike.setdefault(edge.id if edge.back else edge.target, []).append(edge)
    for edges in alike.values():
        yield _arrow(name, edges, error_texts(graph, edges), marking)


def _arrow(source: str, edges: Sequence[Edge], texts: tuple[str, ...], marking: _Marking) -> Arrow:
    ids = tuple(edge.id for edge in edges)
    taken = sum(edge in ids for edge in marking.route)
    marks, is_back = marking.marks.on(edges), edges[0].back
    return Arrow(source, edges[0].target, texts, ids, taken, marks, is_back)
