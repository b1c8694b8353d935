"""Junctions: states from which it hangs on the state before how a run may go on.

Each is as many nodes as there are ways to it, so that what follows one state is not taken for what
follows another. Every other state is one node, of its own name.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from loopkit.language.facts import CAME_FROM
from loopkit.language.guard.kleene import truth
from loopkit.machine.edges import Edge

if TYPE_CHECKING:
    from loopkit.machine.graph import Graph


class Before(NamedTuple):
    """From where a run came to a node."""

    state: str
    """The junction."""
    source: str
    is_done: bool
    """Whether the state before has done its work, and no error or limit led here."""


class Junctions:
    """The junctions of one graph."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._split = {name for name, state in graph.states.items() if self._is_one(name)}
        self.before: dict[str, Before] = {}
        """How each node of a junction is entered; its plain name stands for any way."""
        self.entered: dict[str, str] = {}
        """For each edge to a junction: the node to which it leads."""
        for edge in graph.edges if self._split else ():
            if edge.target in self._split:
                before = Before(edge.target, edge.source, edge.event == "done")
                node = " ".join((edge.target, "after", edge.source, *(["done"] * before.is_done)))
                self.before[node], self.entered[edge.id] = before, node

    def _is_one(self, name: str) -> bool:
        """Whether a person may go back to an origin from here, or a guard asks for the state."""
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
            for edge in self._graph.outgoing[name]:
                found[edge.id] = tuple(node for node in nodes if edge in self.ways[node])
        return found

    def nodes_of(self, state: str) -> tuple[str, ...]:
        """All nodes of a state to which a run may come."""
        if state not in self._split:
            return (state,)
        split = self._nodes[state]
        return (state, *split) if state == self._graph.machine.start or not split else split

    def _ways(self, before: Before) -> Iterator[Edge]:
        """The edges out of a junction whose guard may hold there, and holds for none before it."""
        known = {CAME_FROM: before.source}
        passed: list[frozenset[str]] = []
        for edge in self._graph.outgoing[before.state]:
            guard = self._graph.guard_of(edge) if edge.event == "done" else None
            parts = frozenset() if guard is None else frozenset(_needed(guard.tree, known))
            is_unread = guard is None and edge.guard is not None
            if guard is not None and truth(guard.tree, known) is False:
                continue
            if edge.event == "done" and any(needed <= parts for needed in passed):
                continue
            yield edge
            if edge.event == "done" and not edge.back and not is_unread:
                passed.append(parts)


def _needed(tree: ast.expr, known: Mapping[str, object]) -> Iterator[str]:
    """What has to hold for a guard, one part for each `and`, without what is known to hold."""
    if isinstance(tree, ast.BoolOp) and isinstance(tree.op, ast.And):
        for part in tree.values:
            yield from _needed(part, known)
    elif truth(tree, known) is not True:
        yield ast.dump(tree)
