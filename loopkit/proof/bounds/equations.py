"""Linear equations over fractions, solved as far as they determine the wanted unknowns."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

Equation = tuple[list[Fraction], Fraction]
"""Coefficients, and the value of their sum."""


class Contradiction(Exception):
    """No values solve all the equations."""


class Equations:
    """A system in reduced form."""

    def __init__(self) -> None:
        self._pivots: dict[int, Equation] = {}

    def add(self, coefficients: Sequence[int], value: Fraction) -> None:
        """Add an equation; raises Contradiction if it contradicts the others."""
        left, rest = self._reduce([Fraction(c) for c in coefficients], value)
        pivot = next((index for index, c in enumerate(left) if c), None)
        if pivot is None:
            if rest:
                raise Contradiction
            return
        scale = left[pivot]
        self._pivots[pivot] = ([c / scale for c in left], rest / scale)

    def value(self, coefficients: Sequence[int]) -> Fraction | None:
        """The value of a sum; None if the equations leave it open."""
        left, rest = self._reduce([Fraction(c) for c in coefficients], Fraction(0))
        return None if any(left) else -rest

    def _reduce(self, left: list[Fraction], rest: Fraction) -> Equation:
        for pivot, (row, value) in self._pivots.items():
            factor = left[pivot]
            if factor:
                left = [a - factor * b for a, b in zip(left, row, strict=True)]
                rest -= factor * value
        return left, rest
