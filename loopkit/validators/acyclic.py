"""`acyclic`: a graph in the data has no cycle, and its edges lead to nodes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from loopkit.language import Acyclic, AcyclicRule
from loopkit.language.guard import select
from loopkit.language.guard.paths import ITEMS
from loopkit.machine.cycles import cycle_text, shortest_cycles
from loopkit.machine.path_values import (
    MAX_HINTS,
    PAIR,
    Same,
    choices,
    ends_of,
    same_as,
    unknown,
    value_text,
    values_at,
)
from loopkit.validators.data import NoData, data_of
from loopkit.validators.fault import MAX_FAULTS, Fault, unreadable
from loopkit.validators.judged_artifact import JudgedArtifact
from loopkit.validators.setting import Setting
from loopkit.validators.unmet_needs import item_of, unmet_needs
from loopkit.values import Mutable, Value, field


class Edge(Value, frozen=True):
    """One edge, where it is written."""

    location: str
    start: object
    end: object


class Graph(Mutable):
    """The nodes and edges of some data, and the faults of single ones."""

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
    rule: AcyclicRule, subject: JudgedArtifact, setting: Setting
) -> list[Fault]:
    """A fault for each id that is taken, each edge to no node, and one cycle of each component.

    Nodes that all lead to each other are one component. A missing id or edge is not a fault here,
    because `schema` can require it. With `needs`, the only faults are things that a node needs and
    no node before it gives. Raises GuardError; CannotJudge where what is given is not there, or
    there are too many nodes.
    """
    data = data_of(subject, tolerant=True)
    if isinstance(data, NoData):
        return [unreadable(data.reason)]
    graph = Graph()
    _add_nodes(graph, rule.acyclic, data)
    words = choices(node_id for _, node_id in graph.leads)
    for edge in _edges(graph, rule.acyclic, data):
        _add_edge(graph, edge, words)
    if rule.acyclic.needs is not None:
        return list(islice(unmet_needs(rule.acyclic, data, graph.leads, setting), MAX_FAULTS))
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
    """The edges: from each item with an id to what it names, or pairs of ids."""
    if not paths.is_in_nodes(paths.edges):
        for location, value in select(paths.edges, data):
            yield from _pair(graph, location, value)
        return
    depth = paths.nodes.count(ITEMS)
    nodes = values_at(paths.nodes, data)
    ids = {item_of(location, depth): value for location, value in nodes if same_as(value)}
    for location, end in values_at(paths.edges, data):
        # Nothing can lead back to an item without an id.
        if (item := item_of(location, depth)) in ids:
            yield Edge(location, ids[item], end)


def _pair(graph: Graph, location: str, value: object) -> Iterator[Edge]:
    ends = ends_of(value)
    if ends is not None:
        yield Edge(location, *ends)
    elif value is not None:
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
        text = cycle_text([value_text(value) for value in ids])
        yield Fault(f"the nodes form a cycle: {text}", f"circle {text}", value=ids)
