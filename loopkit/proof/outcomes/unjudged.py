"""Artifacts that reach the transitions of a validate state without being judged."""

from __future__ import annotations

from collections.abc import Sequence

from loopkit.language import AgentState, CommandState, State
from loopkit.language.guard import Guard
from loopkit.machine.graph import Edge, output_of
from loopkit.proof.outcomes.anatomy import Anatomy


def whole_guards(anatomy: Anatomy, edges: Sequence[Edge]) -> dict[str, Guard | None]:
    """The guard of each edge that has one; none for those that cannot be used."""
    return {e.id: anatomy.guards.whole(e.guard) for e in edges if e.guard is not None}


def rows_named(anatomy: Anatomy, name: str) -> frozenset[str]:
    """Which of `incomplete` and `infeasible` come to the transitions of a validate state."""
    guards = whole_guards(anatomy, anatomy.graph.on(name, "done")).values()
    named = frozenset[str]().union(*(guard.names for guard in guards if guard is not None))
    rows = frozenset({"incomplete", "infeasible"})
    return rows if "verdict" in named else rows & named


def _authors(anatomy: Anatomy, name: str) -> dict[str, State]:
    """The states that write what a validate state judges."""
    authors = anatomy.graph.artifacts.get(anatomy.judges[name].validate_, ())
    return {author: anatomy.machine.states[author] for author in authors}


def may_be_faulty(anatomy: Anatomy, name: str) -> bool:
    """Whether what is judged can be an empty or unusable answer, which fails whatever the rules."""
    for author, state in _authors(anatomy, name).items():
        if isinstance(state, AgentState) and not anatomy.graph.on(author, "content"):
            return True
        if isinstance(state, CommandState) and output_of(state, author).file is not None:
            return True
    return False


def may_be_infeasible(anatomy: Anatomy, name: str) -> bool:
    """Whether an author of what is judged can declare that it can't be done."""
    states = _authors(anatomy, name).values()
    names = {state.agent for state in states if isinstance(state, AgentState)}
    agents = (anatomy.machine.agents.get(agent) for agent in names)
    return any(agent is not None and agent.infeasible is not None for agent in agents)
