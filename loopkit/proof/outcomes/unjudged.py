"""Artifacts that reach the transitions of a validate state without being judged."""

from __future__ import annotations

from collections.abc import Sequence

from loopkit.language import facts
from loopkit.language.guard import Guard
from loopkit.machine.codes import fault_codes
from loopkit.machine.edges import Edge
from loopkit.proof.outcomes.analysis import Analysis


def whole_guards(analysis: Analysis, edges: Sequence[Edge]) -> dict[str, Guard | None]:
    """The guard of each edge that has one; None for a guard that cannot be used."""
    return {e.id: analysis.guards.whole(e.guard) for e in edges if e.guard is not None}


def rows_named(analysis: Analysis, name: str) -> frozenset[str]:
    """Which of `incomplete` and `infeasible` come to the transitions of a validate state."""
    guards = whole_guards(analysis, analysis.graph.on(name, "done")).values()
    named = frozenset[str]().union(*(guard.names for guard in guards if guard is not None))
    return facts.rows_named(named)


def may_be_faulty(analysis: Analysis, name: str) -> bool:
    """Whether an empty or unusable answer can be judged, which fails whatever the rules are."""
    return bool(fault_codes(analysis.graph, name))


def may_be_infeasible(analysis: Analysis, name: str) -> bool:
    """Whether an author of the judged artifact can declare the task infeasible."""
    authors = analysis.graph.artifacts.get(analysis.judges[name].validate_, ())
    agents = (agent for author in authors for agent in analysis.machine.agents_at(author))
    return any(agent.infeasible is not None for agent in agents)
