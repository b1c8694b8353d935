"""Marks on a diagram: the parts of a machine that its cases cover."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from loopkit.machine.edges import Edge

Mark = Literal["covered", "missed", "impossible"]
OF_STATES: Mapping[Mark | None, str] = {"missed": "not covered", "impossible": "no run comes here"}
OF_EDGES: Mapping[Mark, str] = {"missed": "not covered", "impossible": "no run takes it"}
OF_CAPS: Mapping[Mark, str] = {"missed": "cap not reached", "impossible": "no run uses it up"}


@dataclass(frozen=True)
class Marks:
    """The marks of states by name, and of edges and the caps of back edges by the edge's id."""

    states: Mapping[str, Mark] = field(default_factory=dict)
    edges: Mapping[str, Mark] = field(default_factory=dict)
    caps: Mapping[str, Mark] = field(default_factory=dict)

    def on(self, edges: Sequence[Edge]) -> tuple[str, ...]:
        """The notes on edges that are one arrow; covered ones have none."""
        return (*_notes(self.edges, edges, OF_EDGES), *_notes(self.caps, edges, OF_CAPS))


def _notes(
    marks: Mapping[str, Mark], edges: Sequence[Edge], words: Mapping[Mark, str]
) -> Iterator[str]:
    for mark, text in words.items():
        found = [edge.event for edge in edges if marks.get(edge.id) == mark]
        if found:
            yield text if len(found) == len(edges) else f"{text}: {', '.join(found)}"
