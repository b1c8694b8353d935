"""What every rule gets: the machine, its graph, and which names exist where."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from loopkit.checks.guard_texts import GuardTexts
from loopkit.definition import Machine, Rule, ValidateState
from loopkit.graph import DocPath, Edge, Graph
from loopkit.guard import GuardType
from loopkit.load import Loaded, Source
from loopkit.scope import Scope
from loopkit.template import Shape


@dataclass(frozen=True, slots=True)
class PlacedRule:
    """One rule of a validator, where it stands and which states judge by it."""

    path: DocPath
    rule: Rule
    judged_at: tuple[str, ...]


@dataclass(frozen=True)
class Subject:
    """One machine under examination. It may be unsound in every way that its form allows."""

    loaded: Loaded
    graph: Graph
    scope: Scope

    @classmethod
    def of(cls, loaded: Loaded) -> Subject:
        graph = Graph(loaded.machine)
        return cls(loaded, graph, Scope(graph))

    @property
    def machine(self) -> Machine:
        return self.loaded.machine

    @property
    def source(self) -> Source:
        return self.loaded.source

    @cached_property
    def judges(self) -> Mapping[str, ValidateState]:
        """The validate states, by name."""
        states = self.machine.states.items()
        return {name: state for name, state in states if isinstance(state, ValidateState)}

    @cached_property
    def rules(self) -> tuple[PlacedRule, ...]:
        """Every rule of the machine: those under `validators:`, then those written inline."""
        return tuple(_rules(self.machine, self.judges))

    @cached_property
    def guards(self) -> GuardTexts:
        """The guards of the machine, parsed as far as they can be."""
        return GuardTexts(self.machine.guards)

    @cached_property
    def guard_types(self) -> Mapping[str, Mapping[str, GuardType]]:
        """What the guards of each state's transitions may name."""
        return {name: self.scope.guard_names(name) for name in self.machine.states}

    @cached_property
    def entering(self) -> Mapping[str, Mapping[str, Shape]]:
        """What templates see when each state starts its work."""
        return {name: self.scope.entering(name) for name in self.machine.states}

    @cached_property
    def judging(self) -> Mapping[str, Mapping[str, Shape]]:
        """What rules and judges see at each validate state."""
        return {name: self.scope.judging(name) for name in self.judges}

    @cached_property
    def dangling(self) -> tuple[Edge, ...]:
        """The edges that lead to no state."""
        return tuple(e for e in self.graph.edges if e.target not in self.machine.states)

    def is_sound(self) -> bool:
        """Whether every edge leads to a state, and the run starts at one that is no end."""
        start, machine = self.machine.start, self.machine
        return not self.dangling and start in machine.states and start not in machine.finals


def target_path(edge: Edge) -> DocPath:
    """Where the name of the state that an edge leads to is written."""
    if edge.back:
        return (*edge.path, "revise")
    is_transition = edge.event == "done" and edge.path[-1] != "next"
    return (*edge.path, "target") if is_transition else edge.path


def _rules(machine: Machine, judges: Mapping[str, ValidateState]) -> Iterator[PlacedRule]:
    for name, validator in machine.validators.items():
        judged_at = tuple(s for s, state in judges.items() if name in state.by)
        if not isinstance(validator, tuple):
            yield PlacedRule(("validators", name), validator, judged_at)
            continue
        for index, rule in enumerate(validator):
            yield PlacedRule(("validators", name, index), rule, judged_at)
    for name, state in judges.items():
        for index, item in enumerate(state.by):
            if not isinstance(item, str):
                yield PlacedRule(("states", name, "by", index), item, (name,))
