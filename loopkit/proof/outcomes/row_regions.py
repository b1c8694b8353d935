"""Regions of rows, split only as far as conditions ask, instead of a product.

The rows of a state are all combinations of the alternatives of its dimensions. They start as one
region. A condition that is not decided for a whole region splits it, by one dimension at a time,
into parts for which it is; a dimension that no condition reads is never split.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import compress
from operator import not_

from loopkit.language.guard.kleene import UNKNOWN, Held, equality, truth
from loopkit.values import Value

Row = Mapping[str, object]
Dimension = tuple[Row, ...]
"""Facts that vary together: every row has one of these alternatives."""
MOST_REGIONS = 5_000
"""The most regions of a state; after that, the remaining ones are not split further."""
Derive = Callable[[Row], Row]


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
        self._named: dict[int, Sequence[str]] = {}
        self._known: dict[int, Mapping[int, bool | None]] = {}
        self._by_fact: dict[tuple[int, str], Mapping[object, set[int]] | None] = {}
        self._deciding: dict[int, Sequence[int]] = {}
        self._of: dict[str, list[int]] = {}
        for index, dimension in enumerate(dimensions):
            for fact in dict.fromkeys(fact for row in dimension for fact in row):
                self._of.setdefault(fact, []).append(index)

    def start(self, context: Row) -> Region:
        """All rows that are possible in a context."""
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

    def regions(
        self, context: Row, next_split: Callable[[Region], bool | Split | None]
    ) -> Iterator[Region]:
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
        """The possible parts of a region."""
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
            if any(
                name in self._derived_from or name not in rows[0] for name in self._names(condition)
            ):
                return None
            known = self._known[id(condition)] = {id(row): truth(condition, row) for row in rows}
        return lambda row: known[id(row)]

    def _within(self, condition: ast.expr, region: Region, row: Row) -> bool | None:
        return truth(condition, self._derive(_join(region.sure, row)))

    def _names(self, condition: ast.expr) -> Sequence[str]:
        known = self._named.get(id(condition))
        if known is None:
            known = [node.id for node in ast.walk(condition) if isinstance(node, ast.Name)]
            self._named[id(condition)] = known
        return known

    def _is_open(self, region: Region, index: int) -> bool:
        return len(self._alternatives(region, index)) > 1

    def _alternatives(self, region: Region, index: int) -> Dimension:
        return region.left.get(index, self._dimensions[index])

    def _deciding_dimensions(self, condition: ast.expr) -> Sequence[int]:
        """The dimensions that decide a condition without parts."""
        known = self._deciding.get(id(condition))
        if known is None:
            known = self._deciding[id(condition)] = self._found_to_decide(condition)
        return known

    def _found_to_decide(self, condition: ast.expr) -> list[int]:
        facts = [
            fact
            for name in self._names(condition)
            for fact in sorted(self._derived_from.get(name, {name}))
        ]
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

    def _narrow(self, region: Region, index: int, part: Dimension) -> Region:
        first = part[0]
        agreed = {f: v for f, v in first.items() if all(f in r and r[f] == v for r in part[1:])}
        sure = self._derive(_join(region.sure, agreed)) if agreed else region.sure
        return Region({**region.left, index: part}, sure)


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
