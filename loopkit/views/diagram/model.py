"""The model of a diagram, for all formats: nodes and arrows, their texts, order and marks."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from loopkit.engine.state import RunState
from loopkit.language.machine import Limits, Machine
from loopkit.language.states.each import EachState
from loopkit.language.states.kinds import (
    AgentState,
    CommandState,
    FilledState,
    HumanState,
    ValidateState,
)
from loopkit.language.validators import Rule, rules_of
from loopkit.machine.edges import ERROR_EVENTS, TOTAL, Edge
from loopkit.machine.graph import Graph, artifact_of
from loopkit.machine.program import AMOUNTS
from loopkit.text import one_line

LIMIT = "(limit)"
"""The node from which `limits.then` is reached; a state can't have this name."""


@dataclass(frozen=True, slots=True)
class Arrow:
    """One edge, or several edges that are shown as one."""

    source: str | None
    """A node, or None for the start of all runs."""
    target: str | None
    """A node, or None for the end of all runs."""
    texts: tuple[str, ...] = ()
    edges: tuple[str, ...] = ()
    """The ids of the edges that it shows."""
    taken: int = 0
    marks: tuple[str, ...] = ()
    """Notes on what cases do not cover of it."""
    is_back: bool = False


@dataclass(frozen=True, slots=True)
class Drawing:
    """A machine, with the path of a run through it or the coverage of its cases, if given."""

    machine: str
    nodes: tuple[Node, ...]
    arrows: tuple[Arrow, ...]
    run: str | None = None
    is_marked: bool = False

    @property
    def subject(self) -> str:
        run = f"run {self.run} of " if self.run else ""
        return f"The {run}machine {self.machine}"


Mark = Literal["covered", "missed", "impossible"]


@dataclass(frozen=True, slots=True)
class Node:
    name: str
    kind: str
    """The kind of a state, `success` or `failure` for a final one, or `limit`."""
    title: str
    texts: tuple[str, ...]
    """Paragraphs under the title, in which no-break spaces tie words together."""
    visits: int = 0
    here: str = ""
    """The run's status, such as `waiting`, if this is its active state."""
    mark: Mark | None = None
    inner: Drawing | None = None
    """The machine that it runs, if it is drawn here: equal machines are drawn only once."""

    @property
    def all_texts(self) -> tuple[str, ...]:
        visited = [f"visited {self.visits}×"] if self.visits else []
        here = [f"the run is {self.here} here"] if self.here else []
        marked = [OF_STATES[self.mark]] if self.mark in OF_STATES else []
        return (*self.texts, *visited, *here, *marked)


def drawing(
    graph: Graph,
    run: RunState | None = None,
    marks: Marks | None = None,
    status: str = "",
    drawn: dict[str, str] | None = None,
) -> Drawing:
    """The drawing of a machine; every edge of the graph is in exactly one arrow.

    The run, its status and the marks are those of the outermost machine. `drawn` has, for each
    machine inside that is drawn already, the name of the state around it.
    """
    way = run or RunState()
    marked = marks or Marks()
    drawn = {} if drawn is None else drawn
    states = _states(graph, way, marked, status or way.status)
    nodes = [_with_inner(graph, node, drawn) for node in states]
    if any(edge.event == "limit" for edge in graph.edges):
        limits = tuple(limit_texts(graph.machine.limits))
        nodes.append(Node(LIMIT, "limit", "limit reached", limits))
    return Drawing(
        machine=graph.machine.label,
        nodes=tuple(nodes),
        arrows=tuple(_arrows(graph, way.route, marked)),
        run=run.run if run else None,
        is_marked=marks is not None,
    )


@dataclass(frozen=True)
class Marks:
    """The marks of states by name, and of edges and the caps of back edges by the edge's id."""

    states: Mapping[str, Mark] = field(default_factory=dict)
    edges: Mapping[str, Mark] = field(default_factory=dict)
    caps: Mapping[str, Mark] = field(default_factory=dict)

    def on(self, edges: Sequence[Edge]) -> tuple[str, ...]:
        """The notes on edges that are one arrow; covered ones have none."""
        return (*_notes(self.edges, edges, OF_EDGES), *_notes(self.caps, edges, OF_CAPS))


def _states(graph: Graph, run: RunState, marks: Marks, status: str) -> Iterator[Node]:
    # Layouts visit nodes in this order, and treat an edge that closes a cycle as leading back. With
    # the targets of `revise` first, these are mostly just the revise edges.
    revised = {edge.target for edge in graph.edges if edge.back}
    for name in sorted(graph.states, key=lambda name: name not in revised):
        texts = tuple(state_texts(graph.machine, name))
        here = status if name == run.state else ""
        visits = run.visits.get(name, 0)
        mark = marks.states.get(name)
        yield Node(name, graph.states[name].drawn_as, name, texts, visits, here, mark)


def _with_inner(graph: Graph, node: Node, drawn: dict[str, str]) -> Node:
    if (child := graph.states[node.name].child) is None:
        return node
    if (where := drawn.get(child.identity)) is not None:
        return replace(node, texts=(*node.texts, f"drawn in {where}"))
    drawn[child.identity] = node.name
    return replace(node, inner=drawing(Graph(child), drawn=drawn))


def _arrows(graph: Graph, route: Sequence[str], marks: Marks) -> Iterator[Arrow]:
    yield Arrow(None, graph.machine.start)
    for name in graph.states:
        for edge in graph.on(name, "done"):
            yield _arrow(name, [edge], edge_texts(graph, edge), route, marks)
        # Errors that lead forward to one state are one arrow; a revise edge has its own budget.
        alike: dict[str, list[Edge]] = {}
        for event in ERROR_EVENTS:
            for edge in graph.on(name, event):
                alike.setdefault(edge.id if edge.back else edge.target, []).append(edge)
        for edges in alike.values():
            yield _arrow(name, edges, error_texts(graph, edges), route, marks)
    if limits := [edge for edge in graph.edges if edge.event == "limit"]:
        # Drawn once, because every agent, run and validate state has this edge.
        taken_in = [f"in {edge.source}" for edge in limits if edge.id in route]
        yield _arrow(LIMIT, limits, ("at most once", *taken_in), route, marks)
    for name in graph.machine.finals:
        yield Arrow(name, None)


def _arrow(
    source: str, edges: Sequence[Edge], texts: tuple[str, ...], route: Sequence[str], marks: Marks
) -> Arrow:
    ids = tuple(edge.id for edge in edges)
    taken = sum(edge in ids for edge in route)
    return Arrow(source, edges[0].target, texts, ids, taken, marks.on(edges), edges[0].back)


OF_STATES: Mapping[Mark | None, str] = {"missed": "not covered", "impossible": "no run comes here"}
OF_EDGES: Mapping[Mark, str] = {"missed": "not covered", "impossible": "no run takes it"}
OF_CAPS: Mapping[Mark, str] = {"missed": "cap not reached", "impossible": "no run uses it up"}


def _notes(
    marks: Mapping[str, Mark], edges: Sequence[Edge], words: Mapping[Mark, str]
) -> Iterator[str]:
    for mark, text in words.items():
        found = [edge.event for edge in edges if marks.get(edge.id) == mark]
        if found:
            yield text if len(found) == len(edges) else f"{text}: {', '.join(found)}"


MAX_CHARS = 200
"""The characters that are shown of a text from the machine file."""
TIE = "\u00a0"
"""A no-break space."""
WORD_WIDTH = 48
"""The columns after which even a word is broken."""


def state_texts(machine: Machine, name: str) -> Iterator[str]:
    state = machine.states[name]
    artifact = artifact_of(machine, name)
    written = f" →{TIE}{artifact}" if artifact not in (None, name) else ""
    yield _clip(state.about) + written
    if outside := [name for name in state.asks if not machine.agents[name].is_called]:
        yield _clip("from outside" + (f": {', '.join(outside)}" if len(state.asks) > 1 else ""))
    if state.needed is not None:
        yield _clip("needs " + ", ".join(state.needed))
    match state:
        case ValidateState():
            named = (item if isinstance(item, str) else _rule(item) for item in state.by)
            yield _clip("by " + ", ".join(named))
            yield from _judges(machine, state)
        case AgentState():
            agents = machine.agents_at(name)
            if tools := dict.fromkeys(tool for agent in agents for tool in agent.callable_tools):
                yield _clip("may call " + ", ".join(tools))
        case FilledState(fallback=True) | CommandState(fallback=True):
            yield "fallback"
        case EachState() if state.parallel > 1:
            yield f"up to {state.parallel} at once"
        case HumanState():
            yield _clip(", ".join(state.choices))
            if state.timeout is not None and state.otherwise is not None:
                yield _clip(f"after {_duration(state.timeout)}: {state.otherwise}")


def _judges(machine: Machine, state: ValidateState) -> Iterator[str]:
    """The agents that the named validators ask; an inline rule names its agent itself."""
    for name in state.by:
        if isinstance(name, str) and name in machine.validators:
            rules = rules_of(machine.validators[name])
            asked = dict.fromkeys(rule.about for rule in rules if rule.asks is not None)
            if asked:
                yield f"{name} asks {', '.join(asked)}"


def _rule(rule: Rule) -> str:
    marks = ", ".join([*filter(None, [rule.severity]), *rule.origin])
    return one_line(f"{rule.kind} {rule.about}", 60) + (f" ({marks})" if marks else "")


def edge_texts(graph: Graph, edge: Edge) -> tuple[str, ...]:
    number = _number(graph, edge)
    asked = [edge.guard or "", f"origin {edge.origin}" if edge.origin else ""]
    condition = ", ".join(filter(None, asked)) or ("otherwise" if number > 1 else "")
    text = f"{number} · {condition}" if condition else str(number)
    return (_clip(text), *_revising(graph, edge))


def _number(graph: Graph, edge: Edge) -> int:
    """The number of a transition in its state, from 1; edges to several origins share one."""
    return list(dict.fromkeys(e.path for e in graph.on(edge.source, "done"))).index(edge.path) + 1


def error_texts(graph: Graph, edges: Sequence[Edge]) -> tuple[str, ...]:
    events = [edge.event for edge in edges]
    caught = "any" if len(events) == len(ERROR_EVENTS) else " or ".join(events)
    return (f"on {caught} error", *_revising(graph, edges[0]))


def _revising(graph: Graph, edge: Edge) -> Iterator[str]:
    if edge.back:
        revise = "revise from best" if edge.from_best else "revise"
        yield ", ".join([revise, *(_budget(graph, edge, counter) for counter in edge.counters)])
    if edge.resets:
        yield "resets " + ", ".join(_counter(graph, counter) for counter in edge.resets)


def _budget(graph: Graph, edge: Edge, counter: str) -> str:
    cap = graph.caps.get(counter, 0)
    if counter == edge.id or [e for e in graph.edges if counter in e.counters] == [edge]:
        return f"max{TIE}{cap}"
    if counter == TOTAL:
        return f"total{TIE}{cap}"
    return f"{_counter(graph, counter).replace(' ', TIE)}: {cap}{TIE}shared"


def _counter(graph: Graph, counter: str) -> str:
    """The name of a counter: that of its budget, or of the edge that it counts."""
    edge = graph.by_id.get(counter)
    if edge is None:
        return counter.replace(":", " ")
    if edge.event != "done":
        return f"{edge.source} on {edge.event} error"
    origin = f" to {edge.origin}" if edge.origin else ""
    return f"{edge.source} {_number(graph, edge)}{origin}"


def limit_texts(limits: Limits) -> Iterator[str]:
    yield "in any agent, run or validate state"
    for name in AMOUNTS:
        if (value := getattr(limits, name)) is not None:
            yield f"{name} {_duration(value) if name == 'time' else f'{value:.12g}'}"


def wrap(text: str, width: int) -> Iterator[str]:
    """The lines of a paragraph, of at most `width` columns except for longer words."""
    for line in textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False):
        line = line.replace(TIE, " ")
        for start in range(0, len(line), WORD_WIDTH):
            yield line[start : start + WORD_WIDTH]


def _duration(seconds: float) -> str:
    for unit, length in (("h", 3600), ("m", 60)):
        if seconds >= length and seconds % length == 0:
            return f"{seconds / length:.12g}{unit}"
    return f"{seconds:.12g}s"


def _clip(text: str) -> str:
    return one_line(text, MAX_CHARS)
