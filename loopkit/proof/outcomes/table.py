"""Tables: the rows of facts with which a state can complete, and the edge that each takes."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cached_property, partial
from itertools import chain
from typing import Any

from loopkit.language.facts import OF_VERDICT, ORIGIN, VERDICT, of_verdict
from loopkit.language.guard import Guard
from loopkit.language.guard.kleene import truth
from loopkit.machine.edges import Edge
from loopkit.proof.outcomes.row_regions import Dimension, Region, Row, Space, Split
from loopkit.proof.outcomes.switch import Switch
from loopkit.values import Value

ROOM = "room "
"""Before the name of a counter: whether there is room in it, as a fact beside the others."""
FOUND_BY = "found by "
"""As a fact beside the others: which validate state found something last."""
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
        """The whole condition for it to be enabled."""
        return _all([self.wanted, self.may_lead, self.allowed])


class Table(Value, frozen=True, dict=True):
    """All the rows of one state, as the product of its dimensions."""

    exits: tuple[Exit, ...]
    own: tuple[Dimension, ...]
    """The facts that the state's work itself decides."""
    others: tuple[Dimension, ...]
    is_human: bool = False
    """Whether a person decides, who cannot choose a closed edge."""
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
        derived = {**row, **of_verdict(row.get(VERDICT))}
        if not self._back:
            return derived
        reached = truth(self._is_full, row)
        return derived if reached is None else {**derived, "cap_reached": reached}

    def may_hold(self, *conditions: ast.expr) -> bool:
        """Whether there may be a row for which all of some conditions hold."""
        space, whole = self._space, _all(conditions)

        def next_split(region: Region) -> Split | None:
            held = space.truth(whole, region)
            return held if isinstance(held, Split) else None

        regions = space.regions({}, next_split)
        return any(space.truth(whole, region) is not False for region in regions)

    def has_origin(self, origin: str) -> bool:
        """Whether a finding may have this origin."""
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

        def next_split(region: Region) -> Split | None:
            """The split of a context that decides an answer; None if one is surely open."""
            if any(self._is_open_answer(row) for row in self._answers(answers, region.sure)):
                return None
            splits = (given.truth(part, region) for part in self._asked_of_a_person)
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

    # -- how rows are told apart -----------------------------------------------------------

    @cached_property
    def _space(self) -> Space:
        return self._space_of((*self.others, *self.own))

    def _space_of(self, dimensions: Sequence[Dimension]) -> Space:
        rooms = frozenset(ROOM + c for exit_ in self._back for c in exit_.edge.counters)
        reached_by = rooms | ({ORIGIN} if any(e.edge.origin for e in self._back) else frozenset())
        derived_from = {fact: frozenset({VERDICT}) for fact in OF_VERDICT} | {
            "cap_reached": reached_by
        }
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

    # -- what a person can choose ----------------------------------------------------------

    @cached_property
    def _asked_of_a_person(self) -> Sequence[ast.expr]:
        return [part for exit_ in self.exits for part in (exit_.wanted, exit_.may_lead)]

    def _answers(self, answers: Space, given: Row) -> Iterator[Row]:
        def next_split(region: Region) -> Split | None:
            for exit_ in self.exits:
                held = answers.truth(exit_.wanted, region)
                if isinstance(held, Split):
                    return held
                if held:
                    return None
            return None

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
    has_none, origins = _not(exits[0].has_room), {exit_.edge.origin for exit_ in exits}
    if None in origins:
        return has_none
    others = [_not(_is_origin(None)), _not(_is_one_of(origins))]
    return ast.BoolOp(ast.Or(), [has_none, _all(others)])


def _all(parts: Iterable[ast.expr]) -> ast.expr:
    """The condition that all of these hold, without parts inside parts."""
    every = list(chain.from_iterable(map(_conjuncts, parts)))
    return every[0] if len(every) == 1 else ast.BoolOp(ast.And(), every)


def _conjuncts(part: ast.expr) -> Sequence[ast.expr]:
    match part:
        case ast.BoolOp(op=ast.And(), values=values):
            return values
        case _:
            return (part,)


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
