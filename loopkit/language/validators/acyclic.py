"""The `acyclic` rule: a graph in data."""

from __future__ import annotations

from collections.abc import Mapping

from loopkit.language.noun import Noun
from loopkit.language.validators.rule import Example, FixedRule, Written


class Acyclic(Noun):
    """Where the graph is in the data."""

    nodes: str
    """Where the ids of the nodes are: `nodes[].id`."""
    edges: str
    """Where each node says where it leads, `nodes[].needs[]`, or where the pairs of ids are."""

    def __str__(self) -> str:
        return self.edges


class AcyclicRule(FixedRule):
    """A graph in the data has no cycle, and its edges lead to nodes."""

    acyclic: Acyclic
    """The paths to its nodes and edges."""

    kind = "acyclic"
    example = Example(
        {"acyclic": {"nodes": "tasks[].id", "edges": "tasks[].needs[]"}},
        passes='{"tasks": [{"id": "boil"}, {"id": "brew", "needs": ["boil"]}]}',
        fails='{"tasks": [{"id": "boil", "needs": ["boil"]}]}',
    )

    @property
    def paths(self) -> Written:
        yield ("acyclic", "nodes"), self.acyclic.nodes
        yield ("acyclic", "edges"), self.acyclic.edges

    def wish(self, patterns: Mapping[str, str]) -> str:
        return f"no cycle in `{self.acyclic.edges}`, which lead to `{self.acyclic.nodes}`"
