"""`acyclic`: a graph in the data has no cycle, and its edges lead to nodes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from loopkit.language import Acyclic, AcyclicRule
from loopkit.language.guard import parse_path, select
from loopkit.language.guard.paths import ITEMS
from loopkit.machine.cycles import cycle_text, shortest_cycles
from loopkit.machine.path_values import (
    MAX_HINTS,
    Same,
    choices,
    same_as,
    unknown,
    value_text,
    values_at,
)
from loopkit.validators.data import NoData, data_of
from loopkit.validators.fault import MAX_FAULTS, Fault, unreadable
from loopkit.validators.judged_artifact import JudgedArtifact
from loopkit.validators.setting import Setting

PAIR = "write it as [FROM, TO] or {from: FROM, to: TO}"
ENDS = (("from", "to"), ("source", "target"))
"""How the ends of an edge are called that is written by itself."""


@dataclass(frozen=True, slots=True)
class Edge:
    """One edge, where it is written."""

    location: str
    start: object
    end: object


@dataclass(slots=True)
class Graph:
    """The nodes and edges of some data, and what is wrong with them one by one."""

    places: dict[Same, str] = field(default_factory=dict)
    leads: dict[Same, set[Same]] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)

    def fault(self, location: str, what: str, message: str, value: object) -> None:
        steady = f"{what} {value_text(value)}"
        self.faults.append(Fault(f"{location}: {message}", steady, location, value=value))

    @property
    def is_full(self) -> bool:
        return len(self.faults) >= MAX_FAULTS


async def check_acyclic(
    rule: AcyclicRule, subject: JudgedArtifact, _setting: Setting
) -> list[Fault]:
    """A fault for each id that is taken, each edge to no node, and a cycle of each knot of nodes.

    Nodes that all lead to each other are one knot. What is missing is no id and no edge: that it
    has to be there is for `schema` to say. Raises GuardError.
    """
    data = data_of(subject, tolerant=True)
    if isinstance(data, NoData):
        return [unreadable(data.reason)]
    graph = Graph()
    _add_nodes(graph, rule.acyclic, data)
    words = choices(node_id for _, node_id in graph.leads)
    for edge in _edges(graph, rule.acyclic, data):
        _add_edge(graph, edge, words)
    return [*graph.faults, *_cycles(graph)][:MAX_FAULTS]


def _add_nodes(graph: Graph, paths: Acyclic, data: object) -> None:
    for location, value in values_at(paths.nodes, data):
        node = same_as(value)
        if node is None:
            message = f"`{value_text(value)}` is not an id; a text or a number names a node"
            graph.fault(location, "no id", message, value)
        elif node in graph.places:
            message = f"`{value_text(value)}` is taken already, at {graph.places[node]}"
            graph.fault(location, "taken", message, value)
        else:
            graph.places[node] = location
            graph.leads[node] = set()


def _edges(graph: Graph, paths: Acyclic, data: object) -> Iterator[Edge]:
    """The edges: what an item leads to that has the id of a node, or pairs by themselves."""
    if not _are_in_nodes(paths):
        for location, value in select(paths.edges, data):
            yield from _pair(graph, location, value)
        return
    depth = paths.nodes.count(ITEMS)
    nodes = values_at(paths.nodes, data)
    ids = {_item(location, depth): value for location, value in nodes if same_as(value)}
    for location, end in values_at(paths.edges, data):
        # Nothing can lead back to an item without an id.
        if (item := _item(location, depth)) in ids:
            yield Edge(location, ids[item], end)


def _are_in_nodes(paths: Acyclic) -> bool:
    """Whether both paths go through the same items, as `nodes[].id` and `nodes[].needs[]` do."""
    nodes, edges = parse_path(paths.nodes), parse_path(paths.edges)
    items = len(nodes) - nodes[::-1].index(ITEMS) if ITEMS in nodes else 0
    return 0 < items < min(len(nodes), len(edges)) and nodes[:items] == edges[:items]


def _item(location: str, depth: int) -> str:
    """The start of a location up to the item of the innermost list."""
    ends = [found.end() for found in re.finditer(r"\]", location)]
    return location[: ends[depth - 1]]


def _pair(graph: Graph, location: str, value: object) -> Iterator[Edge]:
    match value:
        case None:
            return
        case [start, end]:
            yield Edge(location, start, end)
            return
        case dict():
            for first, second in ENDS:
                if first in value and second in value:
                    yield Edge(location, value[first], value[second])
                    return
    graph.fault(location, "no edge", f"`{value_text(value)}` is not an edge; {PAIR}", value)


def _add_edge(graph: Graph, edge: Edge, words: Sequence[str]) -> None:
    start, end = same_as(edge.start), same_as(edge.end)
    if start in graph.leads and end in graph.leads:
        graph.leads[start].add(end)
        return
    for value, node in ((edge.start, start), (edge.end, end)):
        if node not in graph.leads and not graph.is_full:
            message = f"there is no node `{value_text(value)}`"
            known = words if len(graph.faults) < MAX_HINTS else ()
            graph.fault(edge.location, "no node", unknown(message, value, known), value)


def _cycles(graph: Graph) -> Iterator[Fault]:
    for cycle in shortest_cycles(graph.leads, MAX_FAULTS):
        ids = [value for _, value in cycle]
        told = cycle_text([value_text(value) for value in ids])
        yield Fault(f"the nodes form a cycle: {told}", f"circle {told}", value=ids)
