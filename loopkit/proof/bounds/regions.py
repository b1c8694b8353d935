"""Regions: values of an input that nothing distinguishes so far, and how conditions split them."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from math import floor
from typing import TypeGuard

from loopkit.language.guard import Guard
from loopkit.language.guard.kleene import truth
from loopkit.language.guard.tree import names_in
from loopkit.values import Value


class Region(Value, frozen=True):
    """The whole numbers from `low` to `high`, and the `others`."""

    low: int = 1
    high: int = 0
    """Below `low` if there are no numbers among the values."""
    others: tuple[object, ...] = ()
    is_open: bool = False
    """Whether guards that read it are undecided, because there would be too many regions."""

    @classmethod
    def of(cls, value: object) -> Region:
        """The region of one value."""
        if isinstance(value, int) and not isinstance(value, bool):
            return cls(value, value)
        return cls(others=(value,))

    def __len__(self) -> int:
        return max(self.high - self.low + 1, 0) + len(self.others)

    @property
    def stand_in(self) -> object:
        """One of the values."""
        return self.low if self.low <= self.high else self.others[0]

    def has_number(self, number: object) -> bool:
        """Whether a number is among the values."""
        return isinstance(number, int) and self.low <= number <= self.high

    def with_one_less(self) -> Region:
        """The region with each number reduced by one."""
        return Region(self.low - 1, self.high - 1)

    def cut(self, last: int) -> tuple[Region, ...]:
        """The numbers up to `last` and those above; the region itself if one part is empty."""
        if not self.low <= last < self.high:
            return (self,)
        return Region(self.low, last), Region(last + 1, self.high)

    def singles(self) -> Iterator[Region]:
        """A region for each value."""
        yield from map(Region.of, range(self.low, self.high + 1))
        yield from (Region(others=(value,)) for value in self.others)

    def split(
        self, decide: Callable[[object], bool | None], near: Iterable[object]
    ) -> tuple[Region, ...]:
        """Split into parts whose values all decide a condition alike.

        `near` has all numbers at which the decision can change.
        """
        parts = [
            Region(runs[0].low, runs[-1].high)
            for _, found in groupby(self._runs(near), key=lambda run: decide(run.low))
            if (runs := list(found))
        ]
        told: dict[bool | None, tuple[object, ...]] = {}
        for value in self.others:
            held = decide(value)
            told[held] = (*told.get(held, ()), value)
        return (*parts, *(Region(others=values) for values in told.values()))

    def _runs(self, near: Iterable[object]) -> Iterator[Region]:
        """The numbers as runs between those in `near`, each of which is a run of its own."""
        numbers = {floor(n) for n in near if isinstance(n, int | float)}
        cuts = {n + step for n in numbers for step in (0, 1) if self.low < n + step <= self.high}
        ends = sorted({self.low, self.high + 1, *cuts}) if self.low <= self.high else []
        return (Region(low, after - 1) for low, after in pairwise(ends))


def alike(name: str, guards: Iterable[Guard]) -> Callable[[object], object]:
    """A function that maps all values that no guard distinguishes to one of them."""
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


def by_name(guards: Iterable[Guard]) -> Mapping[str, Sequence[Guard]]:
    """The guards that read each name."""
    found: dict[str, list[Guard]] = {}
    for guard in guards:
        for name in guard.names:
            found.setdefault(name, []).append(guard)
    return found
