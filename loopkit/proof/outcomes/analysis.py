"""The parts of a machine that decide the rows of its states: graph, names, guards, rules.

Guards are parsed as far as each can be; severities say whether findings of a rule can block.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache, cached_property
from typing import Generic, TypeVar, cast

from loopkit.document.document import DocPath
from loopkit.language.facts import Severities
from loopkit.language.guard.grammar import Guard, GuardError, GuardProblem, expand, parse, readable
from loopkit.language.guard.type_check import GuardType
from loopkit.language.machine import Machine
from loopkit.language.states import State
from loopkit.language.states.kinds import ValidateState
from loopkit.language.validators import Rule
from loopkit.language.validators.rule import RuleBase
from loopkit.machine.graph import Graph
from loopkit.machine.scope import Scope
from loopkit.values import NOTHING, Value

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

    @classmethod
    def of_machine(cls, machine: Machine, raised: Mapping[str, object] = NOTHING) -> Analysis:
        graph = Graph(machine, raised)
        return Analysis(graph, Scope(graph))

    @property
    def machine(self) -> Machine:
        return self.graph.machine

    @property
    def states(self) -> Mapping[str, State]:
        return self.graph.states

    @property
    def judges(self) -> Mapping[str, ValidateState]:
        return self.graph.judges

    @cached_property
    def rules(self) -> tuple[PlacedRule[Rule], ...]:
        """Every rule of the machine: those under `validators:`, then those written inline."""
        return tuple(_rules(self.machine, self.judges))

    def rules_of(self, noun: type[Kind]) -> Iterator[PlacedRule[Kind]]:
        every = cast("tuple[PlacedRule[Kind], ...]", self.rules)
        return (placed for placed in every if isinstance(placed.rule, noun))

    @cached_property
    def rules_at(self) -> Mapping[str, tuple[Rule, ...]]:
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
        return GuardTexts(self.machine.guards)

    @cached_property
    def guard_types(self) -> Mapping[str, Mapping[str, GuardType]]:
        return {name: self.scope.guards.at(name) for name in self.machine.states}


def _rules(machine: Machine, judges: Mapping[str, ValidateState]) -> Iterator[PlacedRule[Rule]]:
    by: dict[str, dict[str, None]] = {name: {} for name in machine.validators}
    for name, state in judges.items():
        for item in state.by:
            if isinstance(item, str):
                by.setdefault(item, {})[name] = None
    drafts = _drafting(machine)
    for name, validator in machine.validators.items():
        judged_at = tuple(by[name])
        drafted_at = tuple(drafts.get(name, ()))
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


Parsed = Guard | GuardProblem


class GuardTexts:
    """Parses each guard once; a guard that cannot be used is represented by its problem."""

    def __init__(self, named: Mapping[str, str]) -> None:
        self._texts = named
        self.whole = cache(self._assemble)

    @cached_property
    def named(self) -> Mapping[str, Parsed]:
        parsed = {name: parse_or_problem(text) for name, text in self._texts.items()}
        return {name: _fault_of(guard, self._readable) or guard for name, guard in parsed.items()}

    @cached_property
    def reached(self) -> Mapping[str, frozenset[str]]:
        """The named guards that each readable one uses, also through others."""
        return {name: self.named_guards_in(guard) for name, guard in self._readable.items()}

    @cached_property
    def _readable(self) -> Mapping[str, Guard]:
        return readable(self._texts)

    @cached_property
    def usable(self) -> dict[str, Guard]:
        """The named guards that can be expanded."""
        return {name: guard for name, guard in self.named.items() if isinstance(guard, Guard)}

    def named_guards_in(self, guard: Guard) -> frozenset[str]:
        """The readable named guards that a guard names, also through others."""
        found: set[str] = set()
        front = [guard]
        while front:
            new = (front.pop().names & self._readable.keys()) - found
            found |= new
            front += [self._readable[name] for name in new]
        return frozenset(found)

    def is_usable(self, guard: Guard) -> bool:
        """Whether every named guard that a guard names can be expanded."""
        names = guard.names.union(
            *(self._readable[name].names for name in self.named_guards_in(guard))
        )
        return self.usable.keys() >= names & self._texts.keys()

    def every_whole(self, texts: Iterable[str | None]) -> tuple[Guard, ...]:
        """The whole guards among some texts: None is no guard, and some cannot be used."""
        whole = (self.whole(text) for text in texts if text is not None)
        return tuple(guard for guard in whole if guard is not None)

    def names_in(self, texts: Iterable[str | None]) -> frozenset[str]:
        """The names that these guards read, as far as they can be used."""
        return frozenset[str]().union(*(guard.names for guard in self.every_whole(texts)))

    def _assemble(self, text: str) -> Guard | None:
        """The guard with named guards expanded; None if any of them cannot be used."""
        guard = parse_or_problem(text)
        if isinstance(guard, Guard) and self.is_usable(guard):
            with suppress(GuardError):
                return expand(guard, self.usable)
        return None

    def problem_of(self, text: str) -> GuardProblem | None:
        """The problem in a guard's own text; None if there is none, or it is in a named guard."""
        guard = parse_or_problem(text)
        is_own = isinstance(guard, GuardProblem) or self.is_usable(guard)
        return _fault_of(guard, self.usable) if is_own else None


def parse_or_problem(text: str) -> Parsed:
    try:
        return parse(text)
    except GuardError as error:
        return error.problem


def _fault_of(parsed: Parsed, named: Mapping[str, Guard]) -> GuardProblem | None:
    if isinstance(parsed, GuardProblem):
        return parsed
    try:
        expand(parsed, named)
    except GuardError as error:
        return error.problem
    return None


def levels_at(machine: Machine, state: ValidateState) -> Severities:
    return machine.levels.blocking_from(state.block)


def may_block(rule: Rule, levels: Severities) -> bool:
    return levels.blocks(rule.severity or levels.worst)


def may_warn(rule: Rule, state: ValidateState, levels: Severities) -> bool:
    """Whether a finding of a rule can be one that does not block."""
    if state.settle_after is not None or not may_block(rule, levels):
        return True
    is_outvoted = rule.asks is not None and state.combine == "majority"
    is_mild = rule.grades and not levels.blocks(levels.levels[-1])
    return rule.has_baseline or rule.asks_again or is_outvoted or is_mild
