"""Inputs split: a state divides the inputs that it reads until all that it asks is decided."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from loopkit.language.guard.evaluate import UNKNOWN, equality, truth
from loopkit.language.guard.grammar import Guard, constants, names_in
from loopkit.proof.bounds.variables import (
    Region,
    Values,
    Variable,
    Variables,
    cut,
    facts_at,
    number,
    one_by_one,
    split,
)
from loopkit.proof.outcomes.table import MOST_VALUES, undecided

MOST_PARTS = 600
"""The most parts of a configuration in a state; the inputs and caps of the others are undecided."""
Found = tuple[Variable, list[Region], int]
"""A variable, the parts of its region, and how many guards are decided for all of them."""


class Splitting:
    def __init__(self, variables: Variables, most: int = MOST_PARTS) -> None:
        """`most` is how many parts guards may split a configuration into at each state."""
        self._variables = variables
        self._most = most
        self._graph = variables.graph
        self.reads = {
            name: any(variable.kind in ("input", "room") for variable in read)
            for name, read in variables.read.items()
        }
        """Whether each state reads a region at all."""
        self._guards = {name: tuple(self._guards_of(name)) for name in self._graph.states}

    def parts(self, name: str, values: Values) -> Iterator[Values]:
        """The parts of a configuration in each of which all that a state reads is decided.

        Where these would be too many, guards may hold or not in the others, and caps may have room
        or not.
        """
        waiting, count = [(values, 0)], 0
        while waiting:
            values, decided = waiting.pop()
            found = self._next_split(name, values, decided)
            if found is not None and count + len(waiting) >= self._most:
                inputs = [variable for variable in _open(values) if variable.kind == "input"]
                found, values = None, {**values, **dict.fromkeys(inputs, UNKNOWN)}
            if found is None:
                count += 1
                yield values
            else:
                variable, regions, decided = found
                waiting += [({**values, variable: one}, decided) for one in reversed(regions)]

    def _guards_of(self, name: str) -> Iterator[tuple[Guard, bool]]:
        """The guards of a state in order, each with whether no later guard matters if it holds."""
        for guard in self._variables.rule_guards.get(name, ()):
            yield guard, False
        for edge in self._graph.on(name, "done"):
            whole = self._variables.analysis.guards.whole(edge.guard) if edge.guard else None
            if whole is not None:
                yield whole, not edge.back

    def _next_split(self, name: str, values: Values, decided: int) -> Found | None:
        """The next variable to split; the first `decided` guards are decided already."""
        if not (open_ := _open(values)):
            return None
        if (by_caps := self._by_caps(name, values, open_)) is not None:
            return (*by_caps, decided)
        regions = {v.name: region for v, region in open_.items() if v.kind == "input"}
        facts = facts_at(self._variables, name, values)
        context = {fact: value for fact, value in facts if fact not in regions}
        for at, (guard, is_last) in enumerate(self._guards[name][decided:], decided):
            if (found := next_split(guard, context, regions)) is not None:
                return Variable("input", found[0]), found[1], at
            known = {fact: region[0] for fact, region in regions.items()}
            if is_last and truth(guard.tree, {**context, **known}) is True:
                return None
        return None

    def _by_caps(
        self, name: str, values: Values, open_: Mapping[Variable, Region]
    ) -> tuple[Variable, list[Region]] | None:
        """The parts of a cap; what counters leave together is known for single values."""
        variables = self._variables
        single = variables.counting[name] if variables.reads_most(name) else ()
        every = dict.fromkeys(c for e in self._graph.outgoing[name] for c in e.counters)
        for counter in filter(variables.counted.__contains__, every):
            cap = Variable("input", str(variables.inputs.caps[counter]))
            spent = number(values.get(Variable("counter", counter), 0))
            for variable in (Variable("room", counter), cap):
                if (region := open_.get(variable)) is not None:
                    parts = one_by_one(region) if counter in single else cut(region, spent)
                    if len(parts) > 1:
                        return variable, parts
        return None


def _open(values: Values) -> Mapping[Variable, Region]:
    return {
        variable: region
        for variable, region in values.items()
        if variable.kind in ("input", "room")
        and isinstance(region, tuple | range)
        and len(region) > 1
    }


def next_split(
    guard: Guard, context: Mapping[str, object], open_: Mapping[str, Region]
) -> tuple[str, list[Region]] | None:
    """A fact whose region has to be split to decide a guard, and the parts."""
    if open_.keys().isdisjoint(guard.names):
        return None
    found = [
        (fact, parts)
        for condition in undecided(guard.tree, context)
        for fact in sorted(names_in(condition) & open_.keys())
        if len(parts := _parts(condition, fact, context, open_)) > 1
    ]
    waiting = {fact for fact, _ in found}
    known = {fact: region[0] for fact, region in open_.items() if fact not in waiting}
    return found[0] if found and truth(guard.tree, {**context, **known}) is None else None


def _parts(
    condition: ast.expr, fact: str, context: Mapping[str, object], open_: Mapping[str, Region]
) -> list[Region]:
    """The parts of a region that decide a smallest condition in different ways."""
    region, others = open_[fact], names_in(condition) - {fact}
    if isinstance(region, tuple) and (needed := equality(condition)) is not None:
        # Hundreds of guards may each take one value out of the rest.
        is_it = region[0] == needed[1]
        parts = ([v for v in region if (v == needed[1]) is held] for held in (is_it, not is_it))
        return [tuple(part) for part in parts if part]
    if others <= context.keys():
        near = [*constants(condition), *(context[other] for other in others)]
        return split(region, lambda value: truth(condition, {**context, fact: value}), near)
    # Of two inputs the smaller one goes first; a fact of the state's own work has any value.
    most = max(len(open_[other]) if other in open_ else MOST_VALUES for other in others)
    return one_by_one(region) if len(region) <= most else [region]
