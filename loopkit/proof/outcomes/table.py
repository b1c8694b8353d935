"""Tables: the rows of facts with which a state can complete, and the edge that each takes.

The rows of a state are all combinations of the alternatives of its dimensions, for each fact the
few values that represent all others. They start as one region. A condition that is not decided for
a whole region splits it, by one dimension at a time, into parts for which it is; a dimension that
no condition reads is never split.

A switch finds transitions by the value of the fact that they compare: a person may have hundreds.
"""

from __future__ import annotations

import ast
from bisect import bisect_left
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property, partial
from heapq import merge
from itertools import chain, compress, pairwise
from math import floor, inf
from operator import not_
from typing import Any

from loopkit.language.datatypes.datatype import DataType, single_values, value_at
from loopkit.language.datatypes.notation import parse_record
from loopkit.language.facts import OF_VERDICT, ORIGIN, VERDICT, of_verdict
from loopkit.language.guard.evaluate import UNKNOWN, Held, equality, truth
from loopkit.language.guard.grammar import Guard, at_place_of, names_in
from loopkit.language.guard.type_check import GuardType
from loopkit.language.machine import Machine
from loopkit.machine.edges import Edge
from loopkit.machine.graph import Graph, cap_value
from loopkit.text import plural
from loopkit.values import NOTHING, Value, field

ROOM = "room "
"""Before the name of a counter: whether there is room in it, as a fact beside the others."""
FOUND_BY = "found by "
"""As a fact beside the others: which validate state found something last."""

Row = Mapping[str, object]
Dimension = tuple[Row, ...]
"""Facts that vary together: every row has one of these alternatives."""


class Split(Value, frozen=True):
    """The parts into which a condition splits one dimension."""

    dimension: int
    parts: tuple[Dimension, ...]
    answered: int = 0
    """How many earlier questions are answered for the whole region."""


class Region(Value, frozen=True):
    """Rows that nothing distinguishes so far."""

    left: Mapping[int, Dimension]
    """The remaining alternatives of each dimension that was split."""
    sure: Row
    """The facts that all of its rows share, with the context."""
    answered: int = 0
    """The questions that need not be asked of it again."""


Question = Callable[[Region], bool | Split | None]


class Exit(Value, frozen=True, dict=True):
    """One transition as the rows decide it."""

    edge: Edge
    guard: Guard | None
    needs_fail: bool = False
    """Whether it revises a judged artifact, so that it needs the verdict `fail`."""
    behind: tuple[Exit, ...] = ()
    """In a person's state, the earlier exits to origins: their answers are never for this one."""

    def holds(self, row: Row) -> bool | None:
        """Whether guard and origin allow it, without regard to room."""
        return truth(self.wanted, row)

    def is_open(self, row: Row) -> bool | None:
        """Whether a revise edge has room and the answer is not for an earlier exit."""
        return truth(self.may_lead, row)

    def is_enabled(self, row: Row) -> bool | None:
        return truth(self.condition, row)

    @cached_property
    def guarded(self) -> ast.expr:
        return _all([]) if self.guard is None else self.guard.tree

    @cached_property
    def wanted(self) -> ast.expr:
        return _all([self.guarded, *([_is_origin(self.edge.origin)] if self.edge.origin else [])])

    @cached_property
    def allowed(self) -> ast.expr:
        return _FAILS if self.needs_fail else _all([])

    @cached_property
    def may_lead(self) -> ast.expr:
        return _all([self.has_room, *(_not(exit_.guarded) for exit_ in self.behind)])

    @cached_property
    def has_room(self) -> ast.expr:
        return _all([ast.Name(ROOM + counter, ast.Load()) for counter in self.edge.counters])

    @cached_property
    def condition(self) -> ast.expr:
        return _all([self.wanted, self.may_lead, self.allowed])


class Table(Value, frozen=True, dict=True):
    """All the rows of one state, as the product of its dimensions."""

    exits: tuple[Exit, ...]
    own: tuple[Dimension, ...]
    """The facts that the state's work itself decides."""
    others: tuple[Dimension, ...]
    is_human: bool = False
    """Whether a person decides, who cannot choose a closed edge."""
    is_report: bool = False
    """Whether its own facts are those of a report. Elsewhere `valid` is a field like any other."""
    is_possible: Callable[[Row], bool] = lambda _: True
    """Whether a row, which may be incomplete, is possible."""
    by_value: frozenset[str] = frozenset()
    """Facts that are split by value, because more than conditions depends on them."""
    first: tuple[str, ...] = ()
    """The facts among them that every row has."""
    also: tuple[ast.expr, ...] = ()
    """Conditions beside those of the exits that every row decides."""

    def rows(self, context: Row | None = None) -> Iterator[Row]:
        """Rows that represent all rows in a context, split as far as conditions need it."""
        space = self._space
        for region in space.regions(context or {}, self._next):
            yield space.row(region)

    def with_derived_facts(self, row: Row) -> Row:
        """The row with the facts that follow from its verdict and its rooms."""
        derived = {**row, **of_verdict(self.verdict(row))}
        if not self._back:
            return derived
        reached = truth(self._is_full, row)
        return derived if reached is None else {**derived, "cap_reached": reached}

    def verdict(self, row: Row) -> object:
        """The verdict of a row; None where it is open, or no report."""
        return row.get(VERDICT) if self.is_report else None

    def may_hold(self, *conditions: ast.expr) -> bool:
        """Whether there may be a row for which all of some conditions hold."""
        holds = partial(self._space.truth, _all(conditions))
        return any(holds(region) is not False for region in self._space.regions({}, holds))

    def has_origin(self, origin: str) -> bool:
        return any(row.get(ORIGIN) == origin for part in (*self.own, *self.others) for row in part)

    def is_stuck(self, row: Row) -> bool:
        """Whether surely no transition is enabled."""
        row = self.with_derived_facts(row)
        return all(exit_.is_enabled(row) is False for exit_ in self._open_exits(row))

    def exits_of(self, row: Row) -> tuple[list[Exit], bool]:
        """The transitions that a row may take, and whether it surely leaves the state.

        It does where one of them is surely enabled, or the answer is surely refused.
        """
        row = self.with_derived_facts(row)
        found: list[Exit] = []
        for exit_ in self._open_exits(row):
            enabled = exit_.is_enabled(row)
            if enabled is not False:
                found.append(exit_)
            if enabled or (self.is_human and exit_.holds(row) is True):
                return found, True
        return found, False

    def without_choice(self) -> Row | None:
        """A context in which a person has no open choice; None if there is none."""
        given = self._space_of(self.others)
        answers = self._space_of(self.own)
        asked = [part for exit_ in self.exits for part in (exit_.wanted, exit_.may_lead)]

        def next_split(region: Region) -> Split | None:
            """The split of a context that decides an answer; None if one is surely open."""
            if any(self._is_open_answer(row) for row in self._answers(answers, region.sure)):
                return None
            splits = (given.truth(part, region) for part in asked)
            return next((split for split in splits if isinstance(split, Split)), None)

        for region in given.regions({}, next_split):
            row = given.row(region)
            if not any(self._is_open_answer(full) for full in self._answers(answers, row)):
                return row
        return None

    def _open_exits(self, row: Row) -> Iterator[Exit]:
        """The transitions whose guards the row does not rule out at once, in order."""
        return (self.exits[place] for place in self._switch.open_at(row))

    @cached_property
    def _switch(self) -> Switch:
        return Switch([exit_.wanted for exit_ in self.exits])

    @cached_property
    def _space(self) -> Space:
        return self._space_of((*self.others, *self.own))

    def _space_of(self, dimensions: Sequence[Dimension]) -> Space:
        rooms = frozenset(ROOM + c for exit_ in self._back for c in exit_.edge.counters)
        reached_by = rooms | ({ORIGIN} if any(e.edge.origin for e in self._back) else frozenset())
        of_report = OF_VERDICT if self.is_report else ()
        derived_from = dict.fromkeys(of_report, frozenset({VERDICT}))
        derived_from["cap_reached"] = reached_by
        return Space(
            dimensions, self.with_derived_facts, self.is_possible, derived_from, self.by_value
        )

    @cached_property
    def _back(self) -> tuple[Exit, ...]:
        return tuple(exit_ for exit_ in self.exits if exit_.edge.back)

    @cached_property
    def _is_full(self) -> ast.expr:
        """The condition that no transition back is open."""
        alike: dict[tuple[str, ...], list[Exit]] = {}
        for exit_ in self._back:
            alike.setdefault(exit_.edge.counters, []).append(exit_)
        return _all(map(_are_closed, alike.values()))

    def _next(self, region: Region) -> Split | None:
        """The split for the next undecided question, up to an exit that is surely taken."""
        earlier, taken = self._asked_first, self._asked_of_exits
        for answered in range(region.answered, len(earlier)):
            told = earlier[answered](region)
            if isinstance(told, Split):
                return told.replace(answered=answered)
        for place in self._cases.open_at(region.sure, max(0, region.answered - len(earlier))):
            told = self._space.truth(taken[place], region)
            if isinstance(told, Split):
                return told.replace(answered=len(earlier) + place)
            if told:
                return None
        return None

    @cached_property
    def _asked_first(self) -> Sequence[Question]:
        """The questions that are asked of every row."""
        space = self._space
        return [
            *(partial(space.value_of, fact) for fact in self.first),
            *(partial(space.truth, part) for part in self.also),
        ]

    @cached_property
    def _asked_of_exits(self) -> Sequence[ast.expr]:
        """The conditions of the exits, in order; no later one matters if one holds."""
        return [
            part
            for exit_ in self.exits
            for part in (exit_.condition, *((exit_.wanted,) if self.is_human else ()))
        ]

    @cached_property
    def _cases(self) -> Switch:
        return Switch(self._asked_of_exits)

    def _answers(self, answers: Space, given: Row) -> Iterator[Row]:
        def next_split(region: Region) -> bool | Split | None:
            told = (answers.truth(exit_.wanted, region) for exit_ in self.exits)
            return next((held for held in told if held), None)

        for region in answers.regions(given, next_split):
            yield self.with_derived_facts({**given, **answers.row(region)})

    def _is_open_answer(self, row: Row) -> bool:
        """Whether the first transition that takes an answer surely has room."""
        for exit_ in self._open_exits(row):
            held, is_open = exit_.holds(row), exit_.is_open(row)
            if held or (held is None and not is_open):
                return is_open is True
        return False


def _are_closed(exits: Sequence[Exit]) -> ast.expr:
    """The condition that exits with the same counters have no room, or that all of them are for
    origins and none is for the earliest one, if there is one."""
    has_none = _not(exits[0].has_room)
    origins = {exit_.edge.origin for exit_ in exits}
    if None in origins:
        return has_none
    others = [_not(_is_origin(None)), _not(_is_one_of(origins))]
    return ast.BoolOp(ast.Or(), [has_none, _all(others)])


def _all(parts: Iterable[ast.expr]) -> ast.expr:
    """The condition that all of these hold, without parts inside parts."""
    every = list(chain.from_iterable(map(_conjuncts, parts)))
    return every[0] if len(every) == 1 else ast.BoolOp(ast.And(), every)


def _not(part: ast.expr) -> ast.expr:
    return ast.UnaryOp(ast.Not(), part)


def _is_origin(origin: str | None) -> ast.expr:
    """The condition that this is the earliest origin; with None, that there is no origin."""
    return ast.Compare(ast.Name(ORIGIN, ast.Load()), [ast.Eq()], [ast.Constant(origin)])


def _is_one_of(origins: Collection[str | None]) -> ast.expr:
    # A set, which no guard can write, so that hundreds of origins are one look.
    known: Any = frozenset(origins)
    return ast.Compare(ast.Name(ORIGIN, ast.Load()), [ast.In()], [ast.Constant(known)])


_FAILS = ast.Compare(ast.Name(VERDICT, ast.Load()), [ast.Eq()], [ast.Constant("fail")])

MOST_REGIONS = 5_000
"""The most regions of a state; after that, the remaining ones are not split further."""
Derive = Callable[[Row], Row]


class Space:
    """All rows of some dimensions, to be split into regions."""

    def __init__(
        self,
        dimensions: Sequence[Dimension],
        derive: Derive,
        is_possible: Callable[[Row], bool],
        derived_from: Mapping[str, frozenset[str]],
        by_value: frozenset[str] = frozenset(),
    ) -> None:
        """`derive` adds the facts that follow from a row, `derived_from` says from which.

        `is_possible` is asked of rows that may be incomplete. A dimension with a fact of
        `by_value` is split into all its alternatives.
        """
        self._dimensions = dimensions
        self._derive = derive
        self._is_possible = is_possible
        self._derived_from = derived_from
        self._by_value = by_value
        # By conditions of guards and by alternatives, which live as long as this does.
        self._names = cache(_names_of)
        self._known: dict[int, Mapping[int, bool | None]] = {}
        self._by_fact: dict[tuple[int, str], Mapping[object, set[int]] | None] = {}
        self._deciding: dict[int, Sequence[int]] = {}
        self._of: dict[str, list[int]] = {}
        for index, dimension in enumerate(dimensions):
            for fact in dict.fromkeys(fact for row in dimension for fact in row):
                self._of.setdefault(fact, []).append(index)

    def start(self, context: Row) -> Region:
        region = Region({}, self._derive(context))
        for index, dimension in enumerate(self._dimensions):
            if len(dimension) == 1:
                region = self._narrow(region, index, dimension)
        for fact in context.keys() & self._of.keys():
            for index in self._of[fact]:
                here = (context[fact], UNKNOWN)
                left = tuple(
                    r for r in self._alternatives(region, index) if r.get(fact, UNKNOWN) in here
                )
                if left and context[fact] is not UNKNOWN:
                    region = self._narrow(region, index, left)
        return region

    def regions(self, context: Row, next_split: Question) -> Iterator[Region]:
        """The regions in which nothing is left to split; `next_split` gives the split of one."""
        waiting, found = [self.start(context)], 0
        while waiting:
            region = waiting.pop()
            split = next_split(region) if found + len(waiting) < MOST_REGIONS else None
            if isinstance(split, Split):
                waiting += reversed(list(self.parts(region, split)))
            else:
                found += 1
                yield region

    def row(self, region: Region) -> Row:
        """A row of a region, without the facts that no condition reads."""
        found: dict[str, object] = {}
        for index in sorted(region.left):
            found = _join(found, region.left[index][0])
        return found

    def truth(self, condition: ast.expr, region: Region) -> bool | Split | None:
        """The truth of a condition in a region, or how it splits the region."""
        match condition:
            case ast.BoolOp(op=op, values=values):
                return self._of_parts(values, region, decisive=isinstance(op, ast.Or))
            case ast.UnaryOp(operand=operand):
                held = self.truth(operand, region)
                return not held if isinstance(held, bool) else held
            case _:
                return self._of_one(condition, region)

    def value_of(self, fact: str, region: Region) -> Split | None:
        """The split by all values of a fact; None if the fact is decided."""
        indices = (index for index in self._of.get(fact, ()) if self._is_open(region, index))
        index = next(indices, None)
        if index is None:
            return None
        return Split(index, _one_by_one(self._alternatives(region, index)))

    def parts(self, region: Region, split: Split) -> Iterator[Region]:
        for part in split.parts:
            narrowed = self._narrow(region, split.dimension, part)
            if self._is_possible(narrowed.sure):
                yield narrowed.replace(answered=split.answered)

    def _of_parts(
        self, values: Iterable[ast.expr], region: Region, *, decisive: bool
    ) -> bool | Split | None:
        told: bool | Split | None = not decisive
        for value in values:
            held = self.truth(value, region)
            if held is decisive:
                return decisive
            if not isinstance(told, Split) and not isinstance(held, bool):
                told = held
        return told

    def _of_one(self, condition: ast.expr, region: Region) -> bool | Split | None:
        held = truth(condition, region.sure)
        if held is not None:
            return held
        open_ = [
            index for index in self._deciding_dimensions(condition) if self._is_open(region, index)
        ]
        if not open_:
            return None
        index = open_[0]
        left = self._alternatives(region, index)
        if len(open_) > 1 or not self._by_value.isdisjoint(left[0]):
            return Split(index, _one_by_one(left))
        told: Mapping[bool | None, Sequence[Row]]
        if (equal := self._equal(condition, index)) is not None:
            told = _apart(left, equal)
        else:
            truth_of = self._by_itself(condition, index) or partial(self._within, condition, region)
            told = _grouped(left, truth_of)
        if len(told) == 1 and index in region.left:
            return next(iter(told))
        # A single part is a split too, so that `row` has a row of this dimension.
        return Split(index, tuple(map(tuple, told.values())))

    def _equal(self, condition: ast.expr, index: int) -> Collection[int] | None:
        """The alternatives of a dimension for which a condition holds that names their value.

        None where the condition does more than that, or the value of one of them is not known.
        """
        needed = equality(condition)
        if needed is None or needed[0] in self._derived_from:
            return None
        fact, value = needed
        if (index, fact) not in self._by_fact:
            self._by_fact[index, fact] = _by_value(self._dimensions[index], fact)
        known = self._by_fact[index, fact]
        return None if known is None else known.get(value, ())

    def _by_itself(self, condition: ast.expr, index: int) -> Callable[[Row], bool | None] | None:
        """The truth of a condition by alternative, if this dimension alone decides it."""
        known = self._known.get(id(condition))
        if known is None:
            rows = self._dimensions[index]
            own = rows[0].keys() - self._derived_from.keys()
            if not own.issuperset(self._names(condition)):
                return None
            known = self._known[id(condition)] = {id(row): truth(condition, row) for row in rows}
        return lambda row: known[id(row)]

    def _within(self, condition: ast.expr, region: Region, row: Row) -> bool | None:
        return truth(condition, self._derive(_join(region.sure, row)))

    def _is_open(self, region: Region, index: int) -> bool:
        return len(self._alternatives(region, index)) > 1

    def _alternatives(self, region: Region, index: int) -> Dimension:
        return region.left.get(index, self._dimensions[index])

    def _deciding_dimensions(self, condition: ast.expr) -> Sequence[int]:
        """The dimensions that decide a condition without parts."""
        known = self._deciding.get(id(condition))
        if known is None:
            facts = [
                fact
                for name in self._names(condition)
                for fact in sorted(self._derived_from.get(name, {name}))
            ]
            indices = dict.fromkeys(index for fact in facts for index in self._of.get(fact, ()))
            known = [index for index in indices if self._tells(index, condition)]
            self._deciding[id(condition)] = known
        return known

    def _tells(self, index: int, condition: ast.expr) -> bool:
        """Whether a dimension matters for a condition; for `TEXT in LIST`, whether it has TEXT."""
        lists = [value for value in self._dimensions[index][0].values() if isinstance(value, Held)]
        match condition:
            case ast.Compare(left=ast.Constant(value=text)) if lists:
                return any(held.tells(text) is not None for held in lists)
            case _:
                return True

    def _narrow(self, region: Region, index: int, part: Dimension) -> Region:
        first = part[0]
        agreed = {f: v for f, v in first.items() if all(f in r and r[f] == v for r in part[1:])}
        sure = self._derive(_join(region.sure, agreed)) if agreed else region.sure
        return Region({**region.left, index: part}, sure)


def _names_of(condition: ast.expr) -> Sequence[str]:
    return [node.id for node in ast.walk(condition) if isinstance(node, ast.Name)]


def _by_value(rows: Dimension, fact: str) -> Mapping[object, set[int]] | None:
    """The alternatives by the value of a fact; None if one of them does not have it."""
    found: dict[object, set[int]] = {}
    for row in rows:
        value = row.get(fact, UNKNOWN)
        if value is UNKNOWN or not isinstance(value, Hashable):
            return None
        found.setdefault(value, set()).add(id(row))
    return found


def _grouped(
    rows: Dimension, truth_of: Callable[[Row], bool | None]
) -> Mapping[bool | None, Sequence[Row]]:
    told: dict[bool | None, list[Row]] = {}
    for row in rows:
        told.setdefault(truth_of(row), []).append(row)
    return told


def _apart(rows: Dimension, equal: Collection[int]) -> Mapping[bool | None, Sequence[Row]]:
    """The rows among `equal` and the others, by whether they are; the first row's part is first.

    Hundreds of conditions may each take one of hundreds of rows out of the rest.
    """
    held = [*map(equal.__contains__, map(id, rows))]
    parts = {True: [*compress(rows, held)], False: [*compress(rows, map(not_, held))]}
    return {told: parts[told] for told in (held[0], not held[0]) if parts[told]}


def _one_by_one(rows: Dimension) -> tuple[Dimension, ...]:
    return tuple((row,) for row in rows)


def _join(row: Row, more: Row) -> dict[str, object]:
    """Both rows as one; the known texts of a list are combined."""
    joined = dict(row)
    for fact, value in more.items():
        known = joined.get(fact)
        if isinstance(value, Held) and isinstance(known, Held):
            joined[fact] = known.beside(value)
        else:
            joined[fact] = value
    return joined


class Switch:
    """A list of conditions, of which a row rules out most."""

    def __init__(self, conditions: Sequence[ast.expr]) -> None:
        self._cases: dict[str, dict[object, list[int]]] = {}
        """By fact and value, the indices of the conditions that need this value, ascending."""
        self._of_fact: dict[str, list[int]] = {}
        """By fact, those of all conditions that need a value of it."""
        self._others: list[int] = []
        for place, condition in enumerate(conditions):
            needed = next(filter(None, map(equality, _conjuncts(condition))), None)
            if needed is None:
                self._others.append(place)
            else:
                fact, value = needed
                self._cases.setdefault(fact, {}).setdefault(value, []).append(place)
                self._of_fact.setdefault(fact, []).append(place)

    def open_at(self, row: Mapping[str, object], first: int = 0) -> Iterator[int]:
        """The indices, from `first` on, of the conditions that no known value of the row rules
        out, ascending."""
        groups = (self._others, *(self._open_of(fact, row) for fact in self._cases))
        return merge(*(_from(group, first) for group in groups if group))

    def _open_of(self, fact: str, row: Mapping[str, object]) -> Sequence[int]:
        value = row.get(fact, UNKNOWN)
        if value is UNKNOWN or not isinstance(value, Hashable):
            return self._of_fact[fact]
        return self._cases[fact].get(value, ())


def _from(places: Sequence[int], first: int) -> Iterator[int]:
    return map(places.__getitem__, range(bisect_left(places, first), len(places)))


def _conjuncts(condition: ast.expr) -> Iterator[ast.expr]:
    """The parts that all have to hold for a condition to hold."""
    match condition:
        case ast.BoolOp(op=ast.And(), values=values):
            for value in values:
                yield from _conjuncts(value)
        case _:
            yield condition


Values = tuple[object, ...]
OTHER_TEXT = "…"
MOST_VALUES = 64


def domains(
    guards: Iterable[Guard], types: Mapping[str, GuardType], inputs: DataType
) -> dict[str, Values]:
    """The values of each name that decide all the guards.

    Guards compare names with literals or names. A name is left out if it is compared with a name
    whose values are not all known. The values of a number are those that it is compared with and
    their neighbours, those of a text also any other text, those of a list the texts it may hold.
    """
    compared = _operands(guards)
    ranges = input_ranges(inputs)
    found: dict[str, Values] = {}
    for name, others in compared.items():
        known = types.get(name)
        literals = _literals(others, ranges)
        if known is None or literals is None:
            continue
        values = _values(known, literals, *_ends(name, known, ranges))
        if values:
            found[name] = values
    return found


def _operands(guards: Iterable[Guard]) -> dict[str, list[ast.expr]]:
    """Each name with the operands that it is compared with."""
    found: dict[str, list[ast.expr]] = {}
    for guard in guards:
        for name in sorted(guard.names):
            found.setdefault(name, [])
        for node in ast.walk(guard.tree):
            if isinstance(node, ast.Compare):
                sides = (node.left, node.comparators[0])
                for side, other in (sides, sides[::-1]):
                    if isinstance(side, ast.Name):
                        found[side.id].append(other)
    return found


def _literals(others: Iterable[ast.expr], ranges: Mapping[str, range]) -> list[object] | None:
    """The values that a name is compared with; None if they are unknown."""
    literals: list[object] = []
    for other in others:
        match other:
            case ast.Constant(value=value):
                literals.append(value)
            case ast.List(elts=items):
                literals += [item.value for item in items if isinstance(item, ast.Constant)]
            case ast.Name(id=name) if name in ranges:
                literals += ranges[name]
            case ast.Name():
                return None
    return literals


def input_ranges(inputs: DataType) -> dict[str, range]:
    """The inputs that are whole numbers with few values, by dotted name."""
    ranges = bounded_inputs(inputs)
    return {dotted: values for dotted, values in ranges.items() if len(values) <= MOST_VALUES}


def bounded_inputs(inputs: DataType) -> dict[str, range]:
    """The inputs that are whole numbers with both ends known, by dotted name."""
    return {
        dotted: range(int(known.minimum), int(known.maximum) + 1)
        for dotted, known in single_values(inputs, "input.")
        if known.bounded and known.minimum is not None and known.maximum is not None
    }


def revisions_in_words(machine: Machine, inputs: Mapping[str, object] = NOTHING) -> Iterator[str]:
    """A line on how often a run revises each author; none if it revises nothing.

    An input without a value counts at its most.
    """
    graph, known = Graph(machine), bounded_inputs(parse_record(machine.input))

    def number(counter: str) -> int:
        cap = graph.caps[counter]
        if isinstance(cap, str) and value_at(inputs, cap.split(".")[1:]) is None:
            return known.get(cap, range(1))[-1]
        return cap_value(cap, inputs)

    most = graph.most_revisions(number)
    told = [f"`{author}` at most {plural(int(some), 'time')}" for author, some in most.items()]
    if told:
        yield f"A run revises {', '.join(told)}"


def _ends(name: str, known: GuardType, ranges: Mapping[str, range]) -> tuple[float, float]:
    if name in ranges:
        return ranges[name].start, ranges[name].stop - 1
    low = -inf if known.minimum is None else known.minimum
    return low, inf if known.maximum is None else known.maximum


def _values(known: GuardType, literals: list[object], low: float, high: float) -> Values:
    none: Values = (None,) if known.optional else ()
    match known.kind:
        case "bool":
            return (True, False, *none)
        case "texts":
            return tuple(dict.fromkeys(text for text in literals if isinstance(text, str)))
        case "str":
            mentioned = dict.fromkeys(text for text in literals if isinstance(text, str))
            return (*(known.values or (*mentioned, OTHER_TEXT)), *none)
        case _:
            numbers = [n for n in literals if isinstance(n, int | float)]
            return (*_numbers(numbers, low, high, whole=known.kind == "int"), *none)


def _numbers(literals: list[int | float], low: float, high: float, *, whole: bool) -> Values:
    """The literals, and a number between every two neighbours and beyond each end."""
    ends = [] if whole else [end for end in (low, high) if abs(end) < inf]
    inside = {n for n in (*literals, *ends) if low <= n <= high}
    known = sorted(inside) or [min(max(low, 0), high)]
    near = {n + step for n in known for step in (-1, 0, 1)}
    near |= {(below + above) / 2 for below, above in pairwise(known)}
    numbers = {floor(n) for n in near} if whole else near
    # The smallest ones first: they make the plainest examples.
    return tuple(n for n in sorted(numbers, key=lambda n: (abs(n), -n)) if low <= n <= high)


class InputParts(Value, frozen=True):
    """The structure of guards, and their parts that are one boolean input; all by their text."""

    made_of: Mapping[str, ast.BoolOp | ast.UnaryOp] = field(default_factory=dict)
    truths: Mapping[str, Mapping[bool, Row]] = field(default_factory=dict)
    """Whether a part can hold, and whether it can fail, each with inputs for which it does."""

    def substitute(self, guard: Guard) -> Guard:
        """A guard that reads each part as one input."""
        if not self.truths:
            return guard
        tree = self._substitute(guard.tree)
        return Guard(guard.text, tree, names_in(tree))

    def _substitute(self, tree: ast.expr) -> ast.expr:
        text = ast.unparse(tree)
        if text in self.truths:
            return at_place_of(tree, ast.Name(text, ast.Load()))
        match self.made_of.get(text):
            case ast.BoolOp(op=op, values=values):
                return at_place_of(
                    tree, ast.BoolOp(op, [self._substitute(part) for part in values])
                )
            case ast.UnaryOp(op=op, operand=operand):
                return at_place_of(tree, ast.UnaryOp(op, self._substitute(operand)))
            case None:
                return tree
