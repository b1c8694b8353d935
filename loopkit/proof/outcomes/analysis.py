"""The parts of a machine that decide the rows of its states: graph, names, guards, rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Generic, TypeVar

from loopkit.document.document import DocPath
from loopkit.language import Machine, Rule, ValidateState
from loopkit.language.guard import GuardType
from loopkit.language.validators.rule import RuleBase
from loopkit.machine.graph import Graph
from loopkit.machine.scope import Scope
from loopkit.proof.outcomes.guard_texts import GuardTexts
from loopkit.proof.outcomes.input_parts import InputParts
from loopkit.values import Value

Kind = TypeVar("Kind", bound=RuleBase)


class PlacedRule(Value, Generic[Kind], frozen=True):
    """One rule of a validator, its place, and the states that judge by it."""

    path: DocPath
    rule: Kind
    judged_at: tuple[str, ...]
    drafted_at: tuple[str, ...] = ()
    """The states in which a tool of an agent checks drafts by it."""

    @property
    def used_at(self) -> tuple[str, ...]:
        """All states that apply it."""
        return (*self.judged_at, *self.drafted_at)


class Analysis(Value, frozen=True, dict=True):
    """What is known about a machine before it runs.

    The machine may have any mistake that its form allows.
    """

    graph: Graph
    scope: Scope
    parts: InputParts = InputParts()
    """The parts of guards that replace inputs."""

    @classmethod
    def of_machine(cls, machine: Machine) -> Analysis:
        graph = Graph(machine)
        return Analysis(graph, Scope(graph))

    @property
    def machine(self) -> Machine:
        return self.graph.machine

    @property
    def judges(self) -> Mapping[str, ValidateState]:
        """The validate states, by name."""
        return self.graph.judges

    @cached_property
    def rules(self) -> tuple[PlacedRule[Rule], ...]:
        """Every rule of the machine: those under `validators:`, then those written inline."""
        return tuple(_rules(self.machine, self.judges))

    def rules_of(self, noun: type[Kind]) -> Iterator[PlacedRule[Kind]]:
        """The rules of one kind."""
        for placed in self.rules:
            if isinstance(placed.rule, noun):
                yield PlacedRule(placed.path, placed.rule, placed.judged_at, placed.drafted_at)

    @cached_property
    def rules_at(self) -> Mapping[str, tuple[Rule, ...]]:
        """The rules by which each validate state judges."""
        found: dict[str, list[Rule]] = {name: [] for name in self.judges}
        for placed in self.rules:
            for name in placed.judged_at:
                found[name].append(placed.rule)
        return {name: tuple(rules) for name, rules in found.items()}

    @cached_property
    def told_what_was_found(self) -> frozenset[str]:
        """The human states that send earlier findings back to their origins."""
        edges = (edge for edge in self.graph.edges if edge.origin is not None)
        return frozenset(edge.source for edge in edges if self.machine.states[edge.source].waits)

    @cached_property
    def guards(self) -> GuardTexts:
        """The guards of the machine, parsed as far as possible."""
        return GuardTexts(self.machine.guards, self.parts)

    @cached_property
    def guard_types(self) -> Mapping[str, Mapping[str, GuardType]]:
        """What the guards of each state's transitions may name."""
        return {name: self.scope.guards.at(name) for name in self.machine.states}


def _rules(machine: Machine, judges: Mapping[str, ValidateState]) -> Iterator[PlacedRule[Rule]]:
    by: dict[str, dict[str, None]] = {name: {} for name in machine.validators}
    for name, state in judges.items():
        for item in state.by:
            if isinstance(item, str):
                by.setdefault(item, {})[name] = None
    drafts = _drafting(machine)
    for name, validator in machine.validators.items():
        judged_at, drafted_at = tuple(by[name]), tuple(drafts.get(name, ()))
        if not isinstance(validator, tuple):
            yield PlacedRule(("validators", name), validator, judged_at, drafted_at)
            continue
        for index, rule in enumerate(validator):
            yield PlacedRule(("validators", name, index), rule, judged_at, drafted_at)
    for name, state in judges.items():
        for index, item in enumerate(state.by):
            if not isinstance(item, str):
                yield PlacedRule(("states", name, "by", index), item, (name,))


def _drafting(machine: Machine) -> dict[str, dict[str, None]]:
    """By validator, the states in which a tool of an agent uses it for drafts."""
    found: dict[str, dict[str, None]] = {}
    for name in machine.states:
        for agent in machine.agents_at(name):
            for tool in agent.callable_tools.values():
                for validator in tool.validators:
                    found.setdefault(validator, {})[name] = None
    return found
