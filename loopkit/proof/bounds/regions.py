"""Regions: values of an input that nothing distinguishes so far, and how conditions split them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from math import floor

from loopkit.language.guard import Guard
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
        """The region with each number reduced by one, if it is not zero."""
        return Region(max(self.low, 1) - 1, self.high - 1)

    def above(self, number: int) -> Region:
        """The numbers above another one, if there are any."""
        return Region(max(self.low, number + 1), self.high) if number < self.high else self

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
        told: dict[bool | None, list[object]] = {}
        for value in self.others:
            told.setdefault(decide(value), []).append(value)
        return (*parts, *(Region(others=tuple(values)) for values in told.values()))

    def split_by(self, value: object) -> tuple[Region, ...]:
        """Split into the values that are equal to `value` and those that are not."""
        if self.low <= self.high:
            return self.split(lambda other: other == value, (value,))
        # One of hundreds of values after the other may be taken out of the rest.
        parts = (
            [other for other in self.others if other == value],
            [other for other in self.others if other != value],
        )
        is_first = self.others[0] == value
        return tuple(Region(others=tuple(p)) for p in (parts if is_first else parts[::-1]) if p)

    def _runs(self, near: Iterable[object]) -> Iterator[Region]:
        """The numbers as runs between those in `near`, each of which is a run of its own."""
        numbers = {floor(n) for n in near if isinstance(n, int | float)}
        cuts = {n + step for n in numbers for step in (0, 1) if self.low < n + step <= self.high}
        ends = sorted({self.low, self.high + 1, *cuts}) if self.low <= self.high else []
        return (Region(low, after - 1) for low, after in pairwise(ends))


def by_name(guards: Iterable[Guard]) -> Mapping[str, Sequence[Guard]]:
    """The guards that read each name."""
    found: dict[str, list[Guard]] = {}
    for guard in guards:
        for name in guard.names:
            found.setdefault(name, []).append(guard)
    return found
