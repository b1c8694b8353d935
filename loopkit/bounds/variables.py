"""What a configuration holds besides its state, as far as something reachable still reads it."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from itertools import product
from typing import Literal, NamedTuple, TypeGuard

from loopkit.definition import ValidateState
from loopkit.graph import Edge, artifact_of
from loopkit.guard import Guard
from loopkit.guard.kleene import UNKNOWN, truth
from loopkit.guard.tree import names_in
from loopkit.rows import Anatomy
from loopkit.rows.domains import bounded_inputs, domains

Kind = Literal["counter", "works", "version", "judged", "fact", "input", "then"]
OF_PROGRESS: Mapping[str, int] = {"stalled": 1, "regressed": 2}
"""The facts that take earlier attempts that were judged, and how many."""


class Variable(NamedTuple):
    """One thing that a configuration remembers."""

    kind: Kind
    """`counter`: revisions spent. `works`: how often a state has completed. `version`: how often
    its author had worked when it wrote an artifact. `judged`: two for each version that a validate
    state has judged before the current one, and one where it has judged that. `fact`: the last
    value of another state's fact. `input`: a value of the input. `then`: whether a limit was
    reached."""
    name: str = ""


THEN = Variable("then")
Values = tuple[object, ...]


class Variables:
    """Which variables matter at each state, and what they start with."""

    def __init__(self, anatomy: Anatomy, inputs: Mapping[str, object]) -> None:
        """`inputs` are those whose values are known, by dotted name."""
        self.anatomy = anatomy
        self.graph = anatomy.graph
        self._given = inputs
        self.read = {name: tuple(dict.fromkeys(self._reads(name))) for name in self.graph.states}
        """What decides how the work of a state can go on."""

    @cached_property
    def at(self) -> Mapping[str, tuple[Variable, ...]]:
        """What configurations of each state hold: all that is read there or later."""
        known = list(dict.fromkeys(v for read in self.read.values() for v in read))
        bit = {variable: 1 << index for index, variable in enumerate(known)}
        later = {name: sum(bit[v] for v in read) for name, read in self.read.items()}
        changed = True
        while changed:
            changed = False
            for edge in reversed(self.graph.edges):
                joined = later[edge.source] | later[edge.target]
                changed |= joined != later[edge.source]
                later[edge.source] = joined
        return {name: tuple(v for v in known if later[name] & bit[v]) for name in self.graph.states}

    @cached_property
    def places(self) -> Mapping[str, Mapping[Variable, int]]:
        """Where each variable stands in the configurations of a state."""
        return {
            name: {variable: index for index, variable in enumerate(held)}
            for name, held in self.at.items()
        }

    @cached_property
    def judging(self) -> Mapping[str, tuple[str, ...]]:
        """The validate states that judge each artifact."""
        found: dict[str, tuple[str, ...]] = {}
        for name, state in self.anatomy.judges.items():
            found[state.validate_] = (*found.get(state.validate_, ()), name)
        return found

    @cached_property
    def guards(self) -> Mapping[str, tuple[Guard, ...]]:
        """The guards of each state's transitions, as far as they can be used."""
        whole = self.anatomy.guards.whole
        return {
            name: tuple(
                guard
                for edge in self.graph.on(name, "done")
                if edge.guard is not None and (guard := whole(edge.guard)) is not None
            )
            for name in self.graph.states
        }

    @cached_property
    def rule_guards(self) -> Mapping[str, tuple[Guard, ...]]:
        """The guards of the rules by which each validate state judges."""
        whole = self.anatomy.guards.whole
        return {
            name: tuple(
                guard
                for r in rules
                if r.guard is not None and (guard := whole(r.guard)) is not None
            )
            for name, rules in self.anatomy.rules_at.items()
        }

    @cached_property
    def elsewhere(self) -> Mapping[str, tuple[Guard, ...]]:
        """The guards of other states that name facts of each state."""
        found: dict[str, list[Guard]] = {name: [] for name in self.graph.states}
        for name, guards in self.guards.items():
            for guard in guards:
                for owner in {_owner(fact) for fact in guard.names} - {name}:
                    if owner in found:
                        found[owner].append(guard)
        return {name: tuple(guards) for name, guards in found.items()}

    @cached_property
    def named(self) -> Mapping[str, frozenset[str]]:
        """The names that each state's guards read, those of its rules included."""
        return {
            name: frozenset[str]().union(
                *(guard.names for guard in (*self.guards[name], *self.rule_guards.get(name, ())))
            )
            for name in self.graph.states
        }

    # -- what is read ----------------------------------------------------------------------

    def _reads(self, name: str) -> Iterator[Variable]:
        for edge in self.graph.outgoing[name]:
            yield from self._spent_by(edge)
            if edge.event == "limit":
                yield THEN
        yield from self._named(name)
        if self.judged_before(name):
            yield Variable("judged", name)
        artifact = artifact_of(self.graph.machine, name)
        if artifact is not None and Variable("version", artifact) in self.most:
            yield Variable("works", name)

    def _spent_by(self, edge: Edge) -> Iterator[Variable]:
        for counter in edge.counters:
            yield Variable("counter", counter)
            cap = self.graph.caps[counter]
            if isinstance(cap, str):
                yield Variable("input", cap)

    def _named(self, name: str) -> Iterator[Variable]:
        for fact in sorted(self.named[name]):
            owner = _owner(fact)
            if fact == "attempt":
                yield self.attempt(name)
            elif fact in self._inputs:
                yield Variable("input", fact)
            elif owner in self.graph.states and owner != name:
                yield Variable("fact", fact)

    def attempt(self, name: str) -> Variable:
        """What `attempt` means in a state."""
        state = self.graph.states[name]
        if isinstance(state, ValidateState):
            return Variable("version", state.validate_)
        return Variable("works", name)

    def judged_before(self, name: str) -> int:
        """How many versions judged before the current one a guard can tell apart."""
        if not isinstance(self.graph.states[name], ValidateState):
            return 0
        read = {n for g in (*self.guards[name], *self.elsewhere[name]) for n in g.names}
        told = (OF_PROGRESS.get(fact.removeprefix(f"{name}."), 0) for fact in read)
        return max(told, default=0)

    # -- how far it is counted -------------------------------------------------------------

    @cached_property
    def most(self) -> Mapping[Variable, int]:
        """Above what no guard tells how often a state has worked; for its artifact the same."""
        most: dict[Variable, int] = {}
        for name in self.graph.states:
            guards = (*self.guards[name], *self.rule_guards.get(name, ()))
            compared = [n for g in guards if "attempt" in g.names for n in self._largest(name, g)]
            if "attempt" in self.named[name]:
                counted = self.attempt(name)
                most[counted] = max(most.get(counted, 0), *(n + 1 for n in compared), 1)
        for counted, largest in list(most.items()):
            if counted.kind == "version":
                for author in self.graph.artifacts.get(counted.name, ()):
                    own = Variable("works", author)
                    most[own] = max(most.get(own, 1), largest)
        return most

    def _largest(self, name: str, guard: Guard) -> Iterator[int]:
        """The whole numbers that a guard may compare `attempt` with, and some more."""
        for node in ast.walk(guard.tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
                yield int(node.value)
        for fact in guard.names & self._ranges.keys():
            yield self._ranges[fact].stop
        if guard.names & {"revisions", "max_revisions"}:
            yield from (
                self.largest_cap(c) for e in self.graph.revise_edges[name] for c in e.counters
            )

    def largest_cap(self, counter: str) -> int:
        """The most that a counter can grant."""
        cap = self.graph.caps[counter]
        return cap if isinstance(cap, int) else max(map(granted, self._domain(cap)), default=0)

    # -- what it starts with ---------------------------------------------------------------

    def starts(self) -> Iterator[dict[Variable, object]]:
        """The values at the start that are not 0: one for each combination of inputs."""
        inputs = [v for v in self.at[self.graph.machine.start] if v.kind == "input"]
        facts = {v: UNKNOWN for v in self.at[self.graph.machine.start] if v.kind == "fact"}
        for values in product(*(self._domain(variable.name) for variable in inputs)):
            yield facts | dict(zip(inputs, values, strict=True))

    def _domain(self, name: str) -> Values:
        """The values of an input; of one that bounds revising, all that it may have."""
        return self._inputs.get(name) or self._of_cap(name)

    def _of_cap(self, name: str) -> Values:
        if name in self._given:
            return (self._given[name],)
        datatype = self.anatomy.scope.input.at(name.split(".")[1:])
        if datatype is None or datatype.minimum is None or datatype.maximum is None:
            return (0,)
        return tuple(range(int(datatype.minimum), int(datatype.maximum) + 1))

    @cached_property
    def _inputs(self) -> Mapping[str, Values]:
        """The values of each input that guards name and whose values can be told apart."""
        every = [g for gs in (*self.guards.values(), *self.rule_guards.values()) for g in gs]
        types = self.anatomy.scope.common_names()
        enough = domains(every, types, self.anatomy.scope.input)
        found: dict[str, Values] = {}
        for name in types:
            none: Values = (None,) if types[name].optional else ()
            if name in self._given:
                found[name] = (self._given[name],)
            elif name in self._ranges:
                found[name] = (*self._ranges[name], *none)
            elif name in enough and name != "attempt":
                found[name] = tuple(dict.fromkeys(map(alike(name, every), enough[name])))
        return found

    @cached_property
    def _ranges(self) -> Mapping[str, range]:
        return bounded_inputs(self.anatomy.scope.input)


def granted(value: object) -> int:
    """The number of revisions that an input's value grants."""
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def _owner(fact: str) -> str:
    """The state that a dotted fact belongs to."""
    return fact.removeprefix("reports.").partition(".")[0]


def alike(name: str, guards: Iterable[Guard]) -> Callable[[object], object]:
    """A function that gives the same value for all values which no guard can tell apart."""
    tests = [node for guard in guards for node in ast.walk(guard.tree) if _tests(node, name)]
    if any(len(names_in(test)) > 1 for test in tests):
        return lambda value: value
    stand_ins: dict[tuple[object, ...], object] = {}

    def stand_in(value: object) -> object:
        told = tuple(truth(test, {name: value}) for test in tests)
        return stand_ins.setdefault(told, value)

    return stand_in


def _tests(node: ast.AST, name: str) -> TypeGuard[ast.expr]:
    """Whether a part of a guard is a smallest condition on a name."""
    if isinstance(node, ast.Compare):
        return name in names_in(node)
    return isinstance(node, ast.Name) and node.id == name
