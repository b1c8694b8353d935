"""Switches: transitions that compare a fact with a constant, found by the value of the fact.

A person with hundreds of choices leaves by as many transitions, and each answer can take only one
of them. Without a table, each answer would be compared with the guards of all.
"""

from __future__ import annotations

import ast
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import TypeAlias

from loopkit.language.guard.kleene import UNKNOWN, equality

Places: TypeAlias = Sequence[int]
"""Indices of conditions in a list, in ascending order."""


class Switch:
    """A list of conditions, of which a row rules out most."""

    def __init__(self, conditions: Sequence[ast.expr]) -> None:
        self._count = len(conditions)
        self._cases: dict[str, dict[object, list[int]]] = {}
        """By fact and value, the conditions that need this value."""
        self._others: list[int] = []
        for place, condition in enumerate(conditions):
            needed = next(filter(None, map(equality, _conjuncts(condition))), None)
            if needed is None:
                self._others.append(place)
            else:
                fact, value = needed
                self._cases.setdefault(fact, {}).setdefault(value, []).append(place)

    def open_at(self, row: Mapping[str, object]) -> Places:
        """The conditions that no known value of the row rules out."""
        found = [*self._others]
        for fact, cases in self._cases.items():
            value = row.get(fact, UNKNOWN)
            if value is UNKNOWN or not isinstance(value, Hashable):
                return range(self._count)
            found += cases.get(value, ())
        return sorted(found)


def _conjuncts(condition: ast.expr) -> Iterator[ast.expr]:
    """The parts that all have to hold for a condition to hold."""
    match condition:
        case ast.BoolOp(op=ast.And(), values=values):
            for value in values:
                yield from _conjuncts(value)
        case _:
            yield condition
