"""Names in guards: what the guards of each state may name, with the types of the values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import cast

from loopkit.language.datatypes import DataType, parse_record, single_values
from loopkit.language.facts import (
    CAME_FROM,
    CODES,
    COUNTING,
    NUMBER,
    OF_REPORTS,
    OF_REVISING,
    ORIGIN,
    SCORE,
    VERDICT,
)
from loopkit.language.guard import GuardType
from loopkit.language.guard.type_check import Kind
from loopkit.machine.codes import codes_at
from loopkit.machine.flow import Flow
from loopkit.machine.graph import Graph
from loopkit.machine.known import Known, over


class GuardNames:
    """The names that guards may use in one machine."""

    def __init__(self, graph: Graph, flow: Flow) -> None:
        self._graph = graph
        self._flow = flow

    def at(self, state: str) -> Mapping[str, GuardType]:
        """What the guards of a state's transitions may name."""
        own = own_names(self._graph, state)
        made = self._flow.completing(state).surely
        few = {**self.common, **self._revisions(state), **self._before(state)}

        def names() -> Iterator[str]:
            yield from few
            for kind, other in sorted(made):
                if kind == "report" and other:
                    yield f"reports.{other}.{VERDICT}"
                if kind == "facts":
                    yield from self._dotted.get(other, ())

        def find(name: str) -> GuardType | None:
            head, _, field = name.partition(".")
            judge = field.removesuffix(f".{VERDICT}") if head == "reports" else field
            if judge != field and ("report", judge) in made:
                return OF_REPORTS[VERDICT]
            if ("facts", head) in made and name in self._dotted.get(head, ()):
                return self._dotted[head][name]
            return few.get(name)

        return over(own, Known(names, find))

    @cached_property
    def _dotted(self) -> dict[str, dict[str, GuardType]]:
        """The facts of each state, as the guards of other states name them."""
        return {
            state: {f"{state}.{name}": t for name, t in own_names(self._graph, state).items()}
            for state in self._graph.states
        }

    @cached_property
    def common(self) -> Mapping[str, GuardType]:
        """What every guard may name: `attempt` and the scalars of the input."""
        given = parse_record(self._graph.machine.input)
        return {"attempt": NUMBER, **_guard_types(given, "input.")}

    def _before(self, state: str) -> dict[str, GuardType]:
        """The fact `came_from`, with the states from which a run can have come."""
        if not self._graph.states[state].knows_before:
            return {}
        sources = dict.fromkeys(edge.source for edge in self._graph.incoming[state])
        is_first = state == self._graph.machine.start
        return {CAME_FROM: GuardType("str", values=tuple(sources), optional=is_first)}

    def _revisions(self, state: str) -> dict[str, GuardType]:
        edges = self._graph.revise_edges[state]
        known = OF_REVISING if len(edges) == 1 else OF_REVISING.keys() - COUNTING.keys()
        return {name: OF_REVISING[name] for name in known} if edges else {}


def own_names(graph: Graph, name: str) -> dict[str, GuardType]:
    """The facts that a state's own work leaves for guards."""
    state, data = graph.states[name], graph.machine.data_type(name)
    facts = {**state.facts, **(_guard_types(data) if data is not None else {})}
    if state.judges is None:
        return facts
    return {**facts, CODES: _codes(graph, name), **_score(graph, name), **_origin(graph, name)}


def _origin(graph: Graph, name: str) -> dict[str, GuardType]:
    """The fact of the earliest origin of a report; it is none where the report does not fail."""
    if not graph.origins:
        return {}
    return {ORIGIN: GuardType("str", optional=True, values=graph.origins.of_state(name))}


def _codes(graph: Graph, name: str) -> GuardType:
    codes = codes_at(graph, name)
    if codes is None:
        return OF_REPORTS[CODES]
    return GuardType("texts", values=tuple(sorted(codes)), closed=True)


def _score(graph: Graph, name: str) -> dict[str, GuardType]:
    """The fact of the lowest score; it is none where no judge with a score has answered."""
    rules = graph.rules_at(name)
    ranges = [rule.score_range for rule in rules if rule.score_range is not None]
    if not ranges:
        return {}
    low, high = min(least for least, _ in ranges), max(most for _, most in ranges)
    return {SCORE: GuardType("num", optional=True, minimum=low, maximum=high)}


def _guard_types(datatype: DataType, prefix: str = "") -> dict[str, GuardType]:
    """The types of the single values in data, under the names that guards use."""
    return {
        name: GuardType(
            cast("Kind", known.scalar),
            values=known.values,
            optional=known.optional,
            bounded=known.bounded,
            minimum=known.minimum,
            maximum=known.maximum,
        )
        for name, known in single_values(datatype, prefix)
    }
