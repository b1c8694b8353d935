"""Junctions: states whose edges depend on the state from which a run came.

A junction has one node for each way into it, so that the paths after one state are not mistaken
for those after another. Every other state is one node with its own name.
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
        """The edges of a junction whose guard may hold and is not covered by an earlier one."""
        known = {CAME_FROM: before.source}
        passed: list[frozenset[str]] = []
        for edge in self._graph.outgoing[before.state]:
            guard = self._graph.guard_of(edge) if edge.event == "done" else None
            parts = frozenset() if guard is None else frozenset(_necessary_parts(guard.tree, known))
            is_unread = guard is None and edge.guard is not None
            if guard is not None and truth(guard.tree, known) is False:
                continue
            if edge.event == "done" and any(needed <= parts for needed in passed):
                continue
            yield edge
            if edge.event == "done" and not edge.back and not is_unread:
                passed.append(parts)


def _necessary_parts(tree: ast.expr, known: Mapping[str, object]) -> Iterator[str]:
    """The operands of `and` that a guard needs, without those that are known to hold."""
    if isinstance(tree, ast.BoolOp) and isinstance(tree.op, ast.And):
        for part in tree.values:
            yield from _necessary_parts(part, known)
    elif truth(tree, known) is not True:
        yield ast.dump(tree)
