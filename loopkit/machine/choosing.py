"""The choice of an agent: what is known before a run about the word that decides it."""

from __future__ import annotations

from loopkit.language import AgentChoice
from loopkit.language.datatypes import DataType, parse_record
from loopkit.machine.graph import Graph


def word_types(graph: Graph, choice: AgentChoice) -> list[DataType | None]:
    """The type of the word, one for each source that it may have; None for an unknown type."""
    first, *inner = choice.steps
    if choice.is_of_input:
        return [parse_record(graph.machine.input).at(inner)]
    authors = graph.artifacts.get(first, (first,) if first in graph.states else ())
    roots = [graph.machine.data_type(author) for author in authors]
    return [root.at(inner) if root is not None else None for root in roots]


def may_be_nobody(graph: Graph, state: str) -> bool:
    """Whether a word may arrive for which a state has no agent.

    A word from the input never does: such an input is refused.
    """
    choice = graph.states[state].choice
    if choice is None or choice.is_of_input:
        return False
    types = word_types(graph, choice)
    known = {word for one in types if one is not None for word in one.values}
    is_closed = all(one is not None and one.values and not one.optional for one in types)
    return not (types and is_closed and known <= choice.of.keys())
