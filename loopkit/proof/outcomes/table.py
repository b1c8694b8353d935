"""Tables: the rows of facts with which a state can complete, and the edge that each takes.

The rows of a state are all combinations of the alternatives of its dimensions, for each fact the
few values that represent all others. A row begins empty. Where a condition is not decided yet, it
goes on as one row for each alternative of a dimension that the condition reads; what no condition
reads is never chosen.

A switch finds transitions by the value of the fact that they compare: a person may have hundreds.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property
from heapq import merge
from itertools import chain, pairwise
from math import floor, inf

from loopkit.language.datatypes.datatype import DataType, single_values, value_at
from loopkit.language.datatypes.notation import parse_record
from loopkit.language.facts import OF_VERDICT, ORIGIN, VERDICT, of_verdict
from loopkit.language.guard.evaluate import UNKNOWN, Held, equality, truth
from loopkit.language.guard.grammar import Guard, conditions, constants, names_in
from loopkit.language.guard.type_check import GuardType
from loopkit.language.machine import Machine
from loopkit.machine.edges import Edge
from loopkit.machine.graph import Graph, cap_value
from loopkit.text import plural
from loopkit.values import NOTHING, Value

ROOM = "room "
"""Before the name of a counter: whether there is room in it, as a fact beside the others."""
FOUND_BY = "found by "
"""As a fact beside the others: which validate state found something last."""

Row = Mapping[str, object]
Dimension = tuple[Row, ...]
"""Facts that vary together: every row has one of these alternatives."""


class Exit(Value, frozen=True):
    """One transition as the rows decide it."""

    edge: Edge
    guard: Guard | None
    wanted: ast.expr
    """The condition that guard and origin allow it, without regard to room."""
    may_lead: ast.expr
    """The condition that a revise edge has room and the answer is not for an earlier exit."""
    allowed: ast.expr
    """The condition of the verdict `fail`, where it revises a judged artifact."""
    condition: ast.expr

    @classmethod
    def of_edge(
        cls, edge: Edge, guard: Guard | None, behind: Iterable[Exit], *, needs_fail: bool
    ) -> Exit:
        """`behind` are the earlier exits to origins in a person's state: their answers are never
        for this one."""
        trees = [one.tree for one in (guard,) if one is not None]
        wanted = _all([*trees, *([_is_origin(edge.origin)] if edge.origin else [])])
        others = (_not(one.guard.tree if one.guard else _all([])) for one in behind)
        may_lead = _all([_have_room(edge.counters), *others])
        allowed = _FAILS if needs_fail else _all([])
        whole = _all([wanted, may_lead, allowed])
        return cls(edge, guard, wanted, may_lead, allowed, whole)


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
    reads_cap: bool = False
    """Whether a guard of the state or of its rules reads `cap_reached`, which takes a look at all
    transitions back."""
    by_value: frozenset[str] = frozenset()
    """Facts that are split by value, because more than conditions depends on them."""
    first: tuple[str, ...] = ()
    """The facts among them that every row has."""
    also: tuple[ast.expr, ...] = ()
    """Conditions beside those of the exits that every row decides."""

    def rows(self, context: Row | None = None) -> Iterator[Row]:
        """Rows that represent all rows in a context, split as far as conditions need it."""
        return (own for own, _ in self._space.rows(context or {}, self._asked))

    @cached_property
    def taken(self) -> Sequence[tuple[Row, Sequence[Exit], bool]]:
        """Each row, the transitions that it may take, and whether it surely leaves the state."""
        return [(row, *self.exits_of(row)) for row in self.rows()]

    def with_derived_facts(self, row: Row) -> Row:
        """The row with the facts that follow from its verdict and its rooms."""
        derived = {**row, **of_verdict(self.verdict(row))}
        reached = self.is_capped(row) if self.reads_cap else None
        return derived if reached is None else {**derived, "cap_reached": reached}

    def is_capped(self, row: Row) -> bool | None:
        """Whether no transition back is open; None where there is none, or it is not decided."""
        return truth(self._is_full, row) if self._back else None

    def verdict(self, row: Row) -> object:
        """The verdict of a row; None where it is open, or no report."""
        return row.get(VERDICT) if self.is_report else None

    def may_hold(self, *conditions: ast.expr) -> bool:
        """Whether there may be a row for which all of some conditions hold."""
        whole = _all(conditions)
        rows = self._space.rows({}, lambda _: [whole])
        return any(truth(whole, row) is not False for _, row in rows)

    def has_origin(self, origin: str) -> bool:
        return any(row.get(ORIGIN) == origin for part in (*self.own, *self.others) for row in part)

    def is_stuck(self, row: Row) -> bool:
        """Whether surely no transition is enabled."""
        row = self.with_derived_facts(row)
        return all(truth(exit_.condition, row) is False for exit_ in self._open_exits(row))

    def exits_of(self, row: Row) -> tuple[list[Exit], bool]:
        """The transitions that a row may take, and whether it surely leaves the state.

        It does where one of them is surely enabled, or the answer is surely refused.
        """
        row = self.with_derived_facts(row)
        found: list[Exit] = []
        for exit_ in self._open_exits(row):
            enabled = truth(exit_.condition, row)
            if enabled is not False:
                found.append(exit_)
            if enabled or (self.is_human and truth(exit_.wanted, row)):
                return found, True
        return found, False

    def without_choice(self) -> Row | None:
        """A context in which a person has no open choice; None if there is none."""
        answers = self._space_of(self.own)
        parts = [part for exit_ in self.exits for part in (exit_.wanted, exit_.may_lead)]

        def is_open(row: Row) -> bool:
            every = answers.rows(row, self._asked_of_answers)
            return any(self._is_open_answer(full) for _, full in every)

        contexts = self._space_of(self.others).rows({}, lambda row: () if is_open(row) else parts)
        return next((own for own, row in contexts if not is_open(row)), None)

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
        every = (*self.also, *(exit_.condition for exit_ in self.exits))
        return Space(
            dimensions,
            self.with_derived_facts,
            self.is_possible,
            derived_from,
            self.by_value.union(self.first),
            [part for condition in every for part in undecided(condition, {})],
        )

    @cached_property
    def _back(self) -> tuple[Exit, ...]:
        return tuple(exit_ for exit_ in self.exits if exit_.edge.back)

    @cached_property
    def _is_full(self) -> ast.expr:
        """The condition that no transition back is open."""
        return _all(_not(_all(_opening(exit_.edge))) for exit_ in self._back)

    def _asked(self, row: Row) -> Iterator[ast.expr]:
        """The conditions that a row has to decide, up to an exit that is surely taken."""
        yield from self._first
        yield from self.also
        for exit_ in self._open_exits(row):
            for part in (exit_.condition, *((exit_.wanted,) if self.is_human else ())):
                if truth(part, row):
                    return
                yield part

    @cached_property
    def _first(self) -> Sequence[ast.expr]:
        return [ast.Name(fact, ast.Load()) for fact in self.first]

    def _asked_of_answers(self, row: Row) -> Iterator[ast.expr]:
        for exit_ in self._open_exits(row):
            if truth(exit_.wanted, row):
                return
            yield exit_.wanted

    def _is_open_answer(self, row: Row) -> bool:
        """Whether the first transition that takes an answer surely has room."""
        for exit_ in self._open_exits(row):
            held, is_open = truth(exit_.wanted, row), truth(exit_.may_lead, row)
            if held or (held is None and not is_open):
                return is_open is True
        return False


def _opening(edge: Edge) -> Iterator[ast.expr]:
    """The conditions that an edge back has room, and is for the earliest origin if there is one."""
    yield _have_room(edge.counters)
    if edge.origin is not None:
        yield ast.BoolOp(ast.Or(), [_is_origin(None), _is_origin(edge.origin)])


def _have_room(counters: Sequence[str]) -> ast.expr:
    return _all(ast.Name(ROOM + counter, ast.Load()) for counter in counters)


def _all(parts: Iterable[ast.expr]) -> ast.expr:
    """The condition that all of these hold, without parts inside parts."""
    every = list(chain.from_iterable(map(_conjuncts, parts)))
    return every[0] if len(every) == 1 else ast.BoolOp(ast.And(), every)


def _not(part: ast.expr) -> ast.expr:
    return ast.UnaryOp(ast.Not(), part)


def _is_origin(origin: str | None) -> ast.expr:
    """The condition that this is the earliest origin; with None, that there is no origin."""
    return ast.Compare(ast.Name(ORIGIN, ast.Load()), [ast.Eq()], [ast.Constant(origin)])


_FAILS = ast.Compare(ast.Name(VERDICT, ast.Load()), [ast.Eq()], [ast.Constant("fail")])

MOST_ROWS = 5_000
"""The most rows of a state; after that, conditions of the remaining ones stay undecided."""
_Begun = tuple[Mapping[int, Row], Row]
"""The alternative of each dimension that was chosen, and all facts that are known with them."""


class Space:
    """All rows of some dimensions."""

    def __init__(
        self,
        dimensions: Sequence[Dimension],
        derive: Callable[[Row], Row],
        is_possible: Callable[[Row], bool],
        derived_from: Mapping[str, frozenset[str]],
        by_value: frozenset[str],
        conditions: Sequence[ast.expr],
    ) -> None:
        """`derive` adds the facts that follow from a row, `derived_from` says from which.

        `is_possible` is asked of rows that may be incomplete. Where no fact of a dimension is in
        `by_value`, alternatives that no condition without parts distinguishes count as one.
        """
        self._dimensions = dimensions
        self._derive = derive
        self._is_possible = is_possible
        self._derived_from = derived_from
        self._by_value = by_value
        self._conditions = conditions
        self._deciding = cache(self._deciding_dimensions)
        self._distinct = cache(lambda index: self._without_alike(dimensions[index]))
        self._of: dict[str, list[int]] = {}
        for index, dimension in enumerate(dimensions):
            for fact in dict.fromkeys(fact for row in dimension for fact in row):
                self._of.setdefault(fact, []).append(index)

    def rows(
        self, context: Row, asked: Callable[[Row], Iterable[ast.expr]]
    ) -> Iterator[tuple[Row, Row]]:
        """The rows that decide all conditions that are `asked` of them, as far as any can.

        Each is given alone, and with the context and all that follows from it.
        """
        dimensions, begun = self._begin(context)
        waiting, found = [begun], 0
        while waiting:
            chosen, row = waiting.pop()
            is_whole = found + len(waiting) >= MOST_ROWS
            index = None if is_whole else self._next_dimension(asked(row), chosen, row)
            if index is None:
                found += 1
                yield _joined(chosen[at] for at in sorted(chosen)), row
                continue
            every = [self._choose((chosen, row), index, one) for one in dimensions[index]]
            waiting += [begun for begun in reversed(every) if self._is_possible(begun[1])]

    def _begin(self, context: Row) -> tuple[Sequence[Dimension], _Begun]:
        """The alternatives of each dimension in a context, and a row with those without choice."""
        dimensions: list[Dimension] = []
        begun: _Begun = {}, self._derive(context)
        for index, dimension in enumerate(self._dimensions):
            left = dimension
            for fact in context.keys() & dimension[0].keys() if dimension else ():
                here = (context[fact], UNKNOWN)
                fitting = tuple(row for row in left if row.get(fact, UNKNOWN) in here)
                left = fitting if fitting and context[fact] is not UNKNOWN else left
            is_whole = left is dimension
            dimensions.append(self._distinct(index) if is_whole else self._without_alike(left))
            if len(left) == 1:
                begun = self._choose(begun, index, left[0])
        return dimensions, begun

    def _choose(self, begun: _Begun, index: int, alternative: Row) -> _Begun:
        chosen, row = begun
        return {**chosen, index: alternative}, self._derive(_joined((row, alternative)))

    def _next_dimension(
        self, asked: Iterable[ast.expr], chosen: Mapping[int, Row], row: Row
    ) -> int | None:
        for condition in asked:
            for part in undecided(condition, row):
                for index in self._deciding(part):
                    if index not in chosen:
                        return index
        return None

    def _without_alike(self, rows: Dimension) -> Dimension:
        """The first of all alternatives of a dimension that nothing distinguishes."""
        facts = {fact for row in rows for fact in row}
        if len(rows) < 3 or facts & self._by_value:
            return rows
        telling = Telling(self._conditions, facts, derived_from=self._derived_from)
        first: dict[object, Row] = {}
        for row in rows:
            first.setdefault(telling.of(row), row)
        return tuple(first.values())

    def _deciding_dimensions(self, condition: ast.expr) -> Sequence[int]:
        """The dimensions that decide a condition without parts."""
        names = [node.id for node in ast.walk(condition) if isinstance(node, ast.Name)]
        facts = (fact for n in names for fact in sorted(self._derived_from.get(n, {n})))
        indices = dict.fromkeys(index for fact in facts for index in self._of.get(fact, ()))
        return [index for index in indices if self._tells(index, condition)]

    def _tells(self, index: int, condition: ast.expr) -> bool:
        """Whether a dimension matters for a condition; for `TEXT in LIST`, whether it has TEXT."""
        lists = [value for value in self._dimensions[index][0].values() if isinstance(value, Held)]
        match condition:
            case ast.Compare(left=ast.Constant(value=text)) if lists:
                return any(held.tells(text) is not None for held in lists)
            case _:
                return True


def undecided(part: ast.expr, facts: Row) -> Iterator[ast.expr]:
    """The smallest undecided conditions of a part of a guard."""
    if truth(part, facts) is not None:
        return
    match part:
        case ast.BoolOp(values=parts):
            for inner in parts:
                yield from undecided(inner, facts)
        case ast.UnaryOp(operand=inner):
            yield from undecided(inner, facts)
        case _:
            yield part


def _joined(rows: Iterable[Row]) -> dict[str, object]:
    """Rows as one; the known texts of a list are combined."""
    joined: dict[str, object] = {}
    for row in rows:
        for fact, value in row.items():
            known = joined.get(fact)
            if isinstance(value, Held) and isinstance(known, Held):
                joined[fact] = known.beside(value)
            else:
                joined[fact] = value
    return joined


_OTHER = object()
"""A value that no condition names."""


class Telling:
    """Tells some facts apart by the truth of conditions.

    A fact is told by its value where a condition names it beside others that are not among them.
    Hundreds of conditions may compare a fact with one value each; they are one look at the value.
    """

    def __init__(
        self,
        conditions: Iterable[ast.expr],
        facts: Collection[str],
        by_value: Collection[str] = (),
        derived_from: Mapping[str, Collection[str]] = NOTHING,
    ) -> None:
        """`by_value` are told by their value in any case."""
        whole = set(by_value)
        self._cases: dict[str, set[object]] = {}
        """The values that a fact is compared with for equality."""
        others: dict[str, ast.expr] = {}
        for condition in conditions:
            names = names_in(condition)
            if not names.issubset(facts):
                whole.update(*(derived_from.get(name, (name,)) for name in names))
            elif (needed := equality(condition)) is None:
                others.setdefault(ast.dump(condition), condition)
            else:
                self._cases.setdefault(needed[0], {UNKNOWN}).add(needed[1])
        self._by_value = sorted(whole.intersection(facts))
        self._others = [one for one in others.values() if not names_in(one) <= whole]

    def of(self, facts: Mapping[str, object]) -> tuple[object, ...]:
        """The same for facts that nothing distinguishes."""
        return (
            *(truth(condition, facts) for condition in self._others),
            *(_among(facts.get(fact, UNKNOWN), values) for fact, values in self._cases.items()),
            *(facts.get(fact, UNKNOWN) for fact in self._by_value),
        )


def _among(value: object, values: Collection[object]) -> object:
    return value if value in values else _OTHER


def alike(name: str, guards: Iterable[Guard]) -> Callable[[object], object]:
    """A function that maps all values that no guard distinguishes to one of them."""
    every = (part for guard in guards for part in conditions(guard.tree))
    telling = Telling((part for part in every if name in names_in(part)), (name,))
    stand_ins = dict[tuple[object, ...], object]()

    def stand_in(value: object) -> object:
        return stand_ins.setdefault(telling.of({name: value}), value)

    return stand_in


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

    def open_at(self, row: Mapping[str, object]) -> Iterator[int]:
        """The indices of the conditions that no known value of the row rules out, ascending."""
        return merge(self._others, *(self._open_of(fact, row) for fact in self._cases))

    def _open_of(self, fact: str, row: Mapping[str, object]) -> Sequence[int]:
        value = row.get(fact, UNKNOWN)
        if value is UNKNOWN or not isinstance(value, Hashable):
            return self._of_fact[fact]
        return self._cases[fact].get(value, ())


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
    ranges = input_ranges(inputs)
    found: dict[str, Values] = {}
    for name, literals in _compared(guards, ranges).items():
        known = types.get(name)
        if known is None or UNKNOWN in literals:
            continue
        if values := _values(known, literals):
            found[name] = values
    return found


def _compared(guards: Iterable[Guard], ranges: Mapping[str, range]) -> dict[str, list[object]]:
    """Each name with the values that it is compared with, UNKNOWN for names with any value."""
    found: dict[str, list[object]] = {}
    for guard in guards:
        for name in sorted(guard.names):
            found.setdefault(name, [])
        for node in ast.walk(guard.tree):
            if isinstance(node, ast.Compare):
                sides = (node.left, node.comparators[0])
                for side, other in (sides, sides[::-1]):
                    if isinstance(side, ast.Name):
                        some = (ranges.get(name, (UNKNOWN,)) for name in names_in(other))
                        found[side.id] += chain(constants(other), *some)
    return found


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


def _values(known: GuardType, literals: list[object]) -> Values:
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
            low = -inf if known.minimum is None else known.minimum
            high = inf if known.maximum is None else known.maximum
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
