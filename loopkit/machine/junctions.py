"""Junctions: states whose edges depend on the state from which a run came.

A junction has one node for each way into it, so that the paths after one state are not mistaken
for those after another. Every other state is one node with its own name.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from heapq import merge
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from loopkit.language.facts import CAME_FROM
from loopkit.language.guard import Guard
from loopkit.language.guard.kleene import equality, truth
from loopkit.machine.edges import Edge

if TYPE_CHECKING:
    from loopkit.machine.graph import Graph


class Before(NamedTuple):
    """The way into a node."""

    state: str
    """The junction."""
    source: str
    is_done: bool
    """Whether the state before completed its work; False after an error or at a limit."""


class Junctions:
    """The junctions of one graph."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._split = {name for name, state in graph.states.items() if self._is_one(name)}
        self.before: dict[str, Before] = {}
        """The way into each node of a junction; its plain name stands for any way."""
        self.entered: dict[str, str] = {}
        """For each edge to a junction: the node to which it leads."""
        for edge in graph.edges if self._split else ():
            if edge.target in self._split:
                before = Before(edge.target, edge.source, edge.event == "done")
                node = " ".join((edge.target, "after", edge.source, *(["done"] * before.is_done)))
                self.before[node], self.entered[edge.id] = before, node

    def _is_one(self, name: str) -> bool:
        """Whether a state is a junction: it has edges to origins, or a guard reads `came_from`."""
        if not self._graph.states[name].knows_before:
            return False
        guarded = [(edge, self._graph.guard_of(edge)) for edge in self._graph.on(name, "done")]
        return any(edge.origin or (guard and CAME_FROM in guard.names) for edge, guard in guarded)

    def state_of(self, node: str) -> str:
        before = self.before.get(node)
        return node if before is None else before.state

    @cached_property
    def ways(self) -> Mapping[str, tuple[Edge, ...]]:
        """The edges that a run may take from each node."""
        split = {node: tuple(self._ways(before)) for node, before in self.before.items()}
        return {**self._graph.outgoing, **split} if split else self._graph.outgoing

    def to(self, edge: Edge) -> str:
        """The node to which an edge leads."""
        return self.entered.get(edge.id, edge.target)

    def all_of(self, state: str) -> tuple[str, ...]:
        """All nodes of a state, its plain name among them."""
        return (state, *self._nodes[state]) if state in self._split else (state,)

    @cached_property
    def _nodes(self) -> Mapping[str, tuple[str, ...]]:
        """The nodes of each junction."""
        return {
            name: tuple(node for node, before in self.before.items() if before.state == name)
            for name in self._split
        }

    @cached_property
    def sources(self) -> Mapping[str, tuple[str, ...]]:
        """For each edge out of a junction: the nodes from which it may be taken."""
        found: dict[str, tuple[str, ...]] = {}
        for name in self._split:
            nodes = [name] if name == self._graph.machine.start else []
            nodes += self._nodes[name]
            leaving: dict[str, list[str]] = {edge.id: [] for edge in self._graph.outgoing[name]}
            for node in nodes:
                for edge in self.ways[node]:
                    leaving[edge.id].append(node)
            found |= {edge: tuple(some) for edge, some in leaving.items()}
        return found

    def nodes_of(self, state: str) -> tuple[str, ...]:
        """All nodes of a state to which a run may come."""
        if state not in self._split:
            return (state,)
        split = self._nodes[state]
        return (state, *split) if state == self._graph.machine.start or not split else split

    def _ways(self, before: Before) -> Iterator[Edge]:
        """The edges of a junction whose guard may hold and is not covered by an earlier one."""
        known = {CAME_FROM: before.source}
        passed: list[frozenset[str]] = []
        for exit_ in self._exits[before.state].after(before.source):
            edge, guard = exit_.edge, exit_.guard
            if guard is not None and truth(guard.tree, known) is False:
                continue
            needed = frozenset(p.text for p in exit_.parts if truth(p.tree, known) is not True)
            if edge.event == "done" and any(covering <= needed for covering in passed):
                continue
            yield edge
            if edge.event == "done" and not edge.back and not exit_.is_unread:
                passed.append(needed)

    @cached_property
    def _exits(self) -> Mapping[str, Exits]:
        """The edges out of each junction."""
        return {
            name: Exits(self._exit(edge) for edge in self._graph.outgoing[name])
            for name in self._split
        }

    def _exit(self, edge: Edge) -> Exit:
        guard = self._graph.guard_of(edge) if edge.event == "done" else None
        parts = () if guard is None else tuple(Part(p, ast.dump(p)) for p in _parts(guard.tree))
        return Exit(edge, guard, parts)


class Part(NamedTuple):
    """An operand of `and`, and what tells it from others."""

    tree: ast.expr
    text: str


class Exit(NamedTuple):
    """An edge out of a junction, with its guard and the parts that this needs."""

    edge: Edge
    guard: Guard | None
    parts: tuple[Part, ...]

    @property
    def is_unread(self) -> bool:
        return self.guard is None and self.edge.guard is not None


class Exits:
    """The edges out of one junction, found by the state before that their guards name."""

    def __init__(self, exits: Iterable[Exit]) -> None:
        self._after: dict[object, list[tuple[int, Exit]]] = {}
        self._always: list[tuple[int, Exit]] = []
        for place, exit_ in enumerate(exits):
            needed = (equality(part.tree) for part in exit_.parts)
            sources = [value for fact, value in filter(None, needed) if fact == CAME_FROM]
            group = self._after.setdefault(sources[0], []) if sources else self._always
            group.append((place, exit_))

    def after(self, source: str) -> Iterator[Exit]:
        """The edges that may be taken after a state, in their order."""
        found = merge(self._always, self._after.get(source, ()), key=itemgetter(0))
        return (exit_ for _, exit_ in found)


def _parts(tree: ast.expr) -> Iterator[ast.expr]:
    """The operands of `and` that a guard needs."""
    if isinstance(tree, ast.BoolOp) and isinstance(tree.op, ast.And):
        for part in tree.values:
            yield from _parts(part)
    else:
        yield tree
