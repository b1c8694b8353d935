"""Inputs made small: parts of guards that alone read some become one boolean, and others are split.

A state splits the regions of inputs that it reads, as far as it needs.
"""

from __future__ import annotations

import ast
from collections import ChainMap, Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from heapq import heappop, heappush

from loopkit.language.guard.evaluate import equality, truth
from loopkit.language.guard.grammar import Guard, at_place_of, constants, names_in
from loopkit.machine.cycles import strong_components
from loopkit.proof.bounds.variables import (
    Inputs,
    Region,
    Values,
    Variable,
    Variables,
    number,
    readings,
    room_of,
)
from loopkit.proof.outcomes.analysis import Analysis
from loopkit.proof.outcomes.table import MOST_VALUES, InputParts, Row

MOST_LOOKED_AT = 1_000
"""The most steps to find the truths of a part; a part that is still open then is not folded."""
Whole = ast.BoolOp | ast.UnaryOp


class _Open(Exception):
    """The truths of a part are not soon known."""


def fold_inputs(analysis: Analysis, given: Mapping[str, object]) -> Analysis:
    """The machine with folded inputs; `given` are the known values, by dotted name."""
    every = [edge.guard for edge in analysis.graph.edges]
    every += [rule.guard for rules in analysis.rules_at.values() for rule in rules]
    guards = analysis.guards.every_whole(dict.fromkeys(every))
    inputs = Inputs(analysis, given, guards)
    free = inputs.named.keys() - {*inputs.caps.values()}
    if all(len(free & guard.names) < 2 for guard in guards):
        return analysis
    parts = _Parts(guards, free)
    truths = dict[str, Mapping[bool, Row]]()
    for tree in parts.alone():
        with suppress(_Open):
            truths[ast.unparse(tree)] = _Truths().of(tree, inputs.named)
    return analysis.replace(parts=InputParts(parts.made_of, truths))


class _Parts:
    """Guards split into parts, the longest first, until no parts share an input."""

    def __init__(self, guards: Iterable[Guard], free: Set[str]) -> None:
        self._free = free
        self._trees: dict[str, ast.expr] = {}
        self._waiting: list[tuple[int, str]] = []
        self._readers = Counter[str]()
        self.made_of: dict[str, Whole] = {}
        for guard in guards:
            self._add(guard.tree)

    def alone(self) -> Iterator[ast.expr]:
        """The parts that alone read some inputs."""
        while self._waiting:
            _, text = heappop(self._waiting)
            tree = self._trees[text]
            if self._is_alone(tree):
                if len(names_in(tree)) > 1:
                    yield tree
            elif isinstance(tree, Whole):
                self.made_of[text] = whole = self._regroup(tree)
                self._readers.subtract(names_in(tree))
                for part in [whole.operand] if isinstance(whole, ast.UnaryOp) else whole.values:
                    self._add(part)

    def _add(self, tree: ast.expr) -> None:
        text = ast.unparse(tree)
        if text not in self._trees:
            self._trees[text] = tree
            heappush(self._waiting, (-len(text), text))
            self._readers.update(names_in(tree))

    def _is_alone(self, tree: ast.expr) -> bool:
        names = names_in(tree)
        return names <= self._free and all(self._readers[name] == 1 for name in names)

    def _regroup(self, tree: Whole) -> Whole:
        """The tree with the parts that share no input with others joined into one."""
        values = [] if isinstance(tree, ast.UnaryOp) else tree.values
        alone = [part for part in values if self._is_alone(part)]
        if isinstance(tree, ast.UnaryOp) or len(alone) < 2:
            return tree
        together = at_place_of(tree, ast.BoolOp(tree.op, alone))
        rest = [part for part in values if part not in alone]
        return at_place_of(tree, ast.BoolOp(tree.op, [together, *rest]))


class _Truths:
    """Whether a part can hold, and whether it can fail."""

    def __init__(self) -> None:
        self._left = MOST_LOOKED_AT

    def of(self, tree: ast.expr, regions: Mapping[str, Region]) -> Mapping[bool, Row]:
        """The possible truths of a part, each with inputs from their regions that lead to it."""
        names = names_in(tree)
        open_ = {name: regions[name] for name in sorted(names) if len(regions[name]) > 1}
        match tree:
            case ast.UnaryOp(operand=part):
                return {not held: row for held, row in self.of(part, regions).items()}
            case ast.BoolOp(op=op, values=values) if len(groups := _groups(values, open_)) > 1:
                each = [self.of(ast.BoolOp(op, group), regions) for group in groups]
                return _together(each, decisive=isinstance(op, ast.Or))
            case ast.BoolOp(values=[part]):
                return self.of(part, regions)
        self._left -= 1
        stand_ins = {name: regions[name].stand_in for name in sorted(names)}
        known = {name: stand_ins[name] for name in names - open_.keys()}
        split = Conditions(known, open_).next_split(Guard("", tree, names))
        if split is not None:
            return self._of_each(tree, ({**regions, split[0]: part} for part in split[1]))
        held = truth(tree, stand_ins)
        if held is None or self._left < 0:
            raise _Open
        return {held: stand_ins}

    def _of_each(self, tree: ast.expr, parts: Iterable[Mapping[str, Region]]) -> Mapping[bool, Row]:
        found: dict[bool, Row] = {}
        for regions in parts:
            if len(found) < 2:
                found = {**self.of(tree, regions), **found}
        return found


def _groups(values: Sequence[ast.expr], open_: Collection[str]) -> list[list[ast.expr]]:
    leads: dict[int | str, set[int | str]] = {name: set() for name in open_}
    for index, value in enumerate(values):
        leads[index] = {*names_in(value) & {*open_}}
        for name in leads[index]:
            leads[name].add(index)
    found = ([at for at in range(len(values)) if at in one] for one in strong_components(leads))
    return [[values[at] for at in group] for group in sorted(filter(None, found))]


def _together(each: Sequence[Mapping[bool, Row]], *, decisive: bool) -> Mapping[bool, Row]:
    """The truths of independent parts together; `decisive` is the value that one part decides."""
    found: dict[bool, Row] = {}
    if deciding := [rows[decisive] for rows in each if decisive in rows]:
        found[decisive] = deciding[0]
    others = [rows[not decisive] for rows in each if (not decisive) in rows]
    if len(others) == len(each):
        found[not decisive] = dict(ChainMap(*map(dict, others)))
    return found


MOST_PARTS = 5_000
"""The most parts of a configuration in a state; the inputs and caps of the others are undecided."""
Found = tuple[Variable, tuple[Region, ...], int]
"""A variable, the parts of its region, and how many guards are decided for all of them."""


class Splitting:
    def __init__(self, variables: Variables, most: int = MOST_PARTS) -> None:
        """`most` is how many parts guards may split a configuration into at each state."""
        self._variables = variables
        self._most = most
        self._graph = variables.graph
        self._readings = {name: tuple(readings(variables, name)) for name in self._graph.states}
        self.reads = {
            name: any(variable.kind in ("input", "room") for variable in read)
            for name, read in variables.read.items()
        }
        """Whether each state reads a region at all."""
        self._rooms = {c: room_of(variables, c) for c in variables.counted}
        self._asked = {name: tuple(self._guards(name)) for name in self._graph.states}

    def parts(self, name: str, values: Values) -> Iterator[Values]:
        """The parts of a configuration in each of which all that a state reads is decided.

        Where these would be too many, guards may hold or not in the others, and caps may have room
        or not.
        """
        waiting, count = [(values, 0)], 0
        while waiting:
            values, answered = waiting.pop()
            found = self._next_split(name, values, answered)
            if found is not None and count + len(waiting) >= self._most:
                inputs = {v: r for v, r in _open(values).items() if v.kind == "input"}
                undecided = {v: region.replace(is_open=True) for v, region in inputs.items()}
                found, values = None, {**values, **undecided}
            if found is None:
                count += 1
                yield values
                continue
            variable, regions, answered = found
            waiting += [({**values, variable: region}, answered) for region in reversed(regions)]

    def _guards(self, name: str) -> Iterator[tuple[Guard, bool]]:
        """The guards of a state in order, each with whether no later guard matters if it holds."""
        for guard in self._variables.rule_guards.get(name, ()):
            yield guard, False
        for edge in self._graph.on(name, "done"):
            whole = self._variables.analysis.guards.whole(edge.guard) if edge.guard else None
            if whole is not None:
                yield whole, not edge.back

    def _next_split(self, name: str, values: Values, answered: int) -> Found | None:
        """The next variable to split; the first `answered` guards are already decided."""
        open_ = _open(values)
        if not open_:
            return None
        by_caps = self._by_caps(name, values, open_)
        return (*by_caps, answered) if by_caps else self._by_guards(name, values, open_, answered)

    def _by_caps(
        self, name: str, values: Values, open_: Mapping[Variable, Region]
    ) -> tuple[Variable, tuple[Region, ...]] | None:
        passed: set[str | None] = set()
        for edge in self._graph.outgoing[name]:
            if edge.event == "done" and not passed.isdisjoint((None, edge.origin)):
                # Where it could be taken, an earlier one is.
                continue
            for counter in edge.counters:
                room = Variable("room", counter)
                cap = self._variables.inputs.caps[counter]
                bound = Variable("input", str(cap))
                if room in open_:
                    parts, variable = open_[room].cut(0), room
                elif bound in open_ and counter in self._variables.counted:
                    spent = number(values[Variable("counter", counter)])
                    parts = open_[bound].cut(spent)
                    variable = bound
                else:
                    continue
                if len(parts) > 1:
                    return variable, parts
            rooms = (self._rooms[c](values) for c in edge.counters if c in self._rooms)
            is_known = self._rooms.keys() >= {*edge.counters}
            if edge.back and edge.guard is None and is_known and all(r is True for r in rooms):
                passed.add(edge.origin)
        return None

    def _by_guards(
        self, name: str, values: Values, open_: Mapping[Variable, Region], answered: int
    ) -> Found | None:
        facts = {v.name: v for v in open_ if v.kind == "input"}
        caps = [self._variables.inputs.caps[c] for c in self._variables.counting[name]]
        bounds = [facts[cap] for cap in caps if isinstance(cap, str) and cap in facts]
        if bounds and len(caps) > 1:
            # What several counters leave together is known for single values.
            return bounds[0], tuple(open_[bounds[0]].singles()), answered
        if bounds:
            facts["max_revisions"] = bounds[0]
        context = {f: read(values) for f, read in self._readings[name] if f not in facts}
        asking = Conditions(context, {fact: open_[variable] for fact, variable in facts.items()})
        for at in range(answered, len(self._asked[name])):
            guard, is_last = self._asked[name][at]
            if (found := asking.next_split(guard)) is not None:
                return facts[found[0]], found[1], at
            if is_last and asking.surely(guard):
                return None
        return None


def _open(values: Values) -> Mapping[Variable, Region]:
    return {
        variable: region
        for variable, region in values.items()
        if isinstance(region, Region) and len(region) > 1
    }


class Conditions:
    """Decides conditions of guards for known facts and regions of facts."""

    def __init__(self, context: Mapping[str, object], open_: Mapping[str, Region]) -> None:
        self._context = context
        self._open = open_

    def next_split(self, guard: Guard) -> tuple[str, tuple[Region, ...]] | None:
        """A fact whose region has to be split to decide a guard, and the parts."""
        if (
            self._open.keys().isdisjoint(guard.names)
            or truth(guard.tree, self._context) is not None
        ):
            return None
        split = [
            (fact, parts)
            for condition in self._open_conditions(guard.tree)
            for fact in sorted(names_in(condition) & self._open.keys())
            if len(parts := self._parts(condition, fact)) > 1
        ]
        waiting = {fact for fact, _ in split}
        known = {f: region.stand_in for f, region in self._open.items() if f not in waiting}
        return split[0] if split and truth(guard.tree, {**self._context, **known}) is None else None

    def _open_conditions(self, part: ast.expr) -> Iterator[ast.expr]:
        """The smallest undecided conditions of a part of a guard."""
        if truth(part, self._context) is not None:
            return
        match part:
            case ast.BoolOp(values=parts):
                for inner in parts:
                    yield from self._open_conditions(inner)
            case ast.UnaryOp(operand=inner):
                yield from self._open_conditions(inner)
            case _:
                yield part

    def surely(self, guard: Guard) -> bool:
        """Whether a guard holds whose regions are split as far as necessary."""
        known = {fact: region.stand_in for fact, region in self._open.items()}
        return truth(guard.tree, {**self._context, **known}) is True

    def _parts(self, condition: ast.expr, fact: str) -> tuple[Region, ...]:
        """The parts of a region that decide a smallest condition in different ways."""
        region = self._open[fact]
        others = names_in(condition) - {fact}
        if (needed := equality(condition)) is not None:
            return region.split(lambda value: value == needed[1], needed[1:])
        if others <= self._context.keys():
            near = [*constants(condition), *(self._context[other] for other in others)]
            return region.split(
                lambda value: truth(condition, {**self._context, fact: value}), near
            )
        if others <= self._open.keys():
            # The smaller one goes first.
            is_smaller = len(region) <= len(self._open[next(iter(others))])
            return tuple(region.singles()) if is_smaller else (region,)
        # Compared with a fact of the state's own work: each value is a part, if there are few.
        return tuple(region.singles()) if len(region) <= MOST_VALUES else (region,)
