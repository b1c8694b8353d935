"""What is known before a run of the word that chooses an agent, and of the codes of findings."""

from __future__ import annotations

from collections.abc import Iterator

from loopkit.language.datatypes.datatype import DataType
from loopkit.language.datatypes.notation import parse_record
from loopkit.language.states.state import AgentChoice
from loopkit.machine.graph import Graph


def word_types(graph: Graph, choice: AgentChoice) -> list[DataType | None]:
    """The type of the word, one for each source that it may have; None for an unknown type."""
    first, *inner = choice.steps
    if choice.is_of_input:
        return [parse_record(graph.machine.input).at(inner)]
    return [root.at(inner) if root is not None else None for root in graph.types_of(first)]


def may_be_nobody(graph: Graph, state: str) -> bool:
    """Whether a word may arrive for which a state has no agent.

    A word from the input never does: such an input is refused.
    """
    choice = graph.states[state].choice
    if choice is None or choice.is_of_input or choice.else_ is not None:
        return False
    types = word_types(graph, choice)
    known = {word for one in types if one is not None for word in one.values}
    is_closed = all(one is not None and one.values and not one.optional for one in types)
    return not (types and is_closed and known <= choice.of.keys())


EMPTY, CUT_OFF, MISSING, REFUSED = "empty", "cut-off", "missing", "refused"
NOT_JSON, BREAKS_SCHEMA = "not-json", "schema"
NO_AGENT = "no-agent"
NO_ANSWER, NOT_VALIDATED = "no-answer", "not-validated"
"""The codes of answers that are not artifacts."""


def codes_at(graph: Graph, name: str) -> frozenset[str] | None:
    """All codes that the findings of a validate state can have; None where any code is possible."""
    faults = fault_codes(graph, name)
    drafting = graph.drafting_rules_at(name) if NOT_VALIDATED in faults else ()
    found = [rule.codes for rule in (*graph.rules_at(name), *drafting)]
    known = [codes for codes in found if codes is not None]
    return faults.union(*known) if len(known) == len(found) else None


def fault_codes(graph: Graph, name: str) -> frozenset[str]:
    """The codes of answers that a validate state judges although they are not artifacts."""
    authors = graph.artifacts.get(graph.judges[name].validate_, ())
    return frozenset(code for author in authors for code in _faults_of(graph, author))


def _faults_of(graph: Graph, author: str) -> Iterator[str]:
    state, agents = graph.states[author], graph.machine.agents_at(author)
    if not state.may_leave_none or graph.on(author, "content"):
        return
    if state.asks:
        yield from (EMPTY, CUT_OFF, REFUSED)
    if may_be_nobody(graph, author):
        yield NO_AGENT
    if any(agent.callable_tools and not agent.leaves_tools_alone for agent in agents):
        yield NO_ANSWER
    if any(agent.required_tool for agent in agents):
        yield NOT_VALIDATED
    if any(agent.schema_ is not None for agent in agents):
        yield from (NOT_JSON, BREAKS_SCHEMA)
    output = state.output_at(author)
    if output is not None and output.may_be_missing:
        yield MISSING
