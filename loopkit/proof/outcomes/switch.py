"""Switches: transitions that compare a fact with a constant, found by the value of the fact.

A person with hundreds of choices leaves by as many transitions, and each answer can take only one
of them. Without a table, each answer would be compared with the guards of all.
"""

from __future__ import annotations

import ast
from bisect import bisect_left
from collections.abc import Hashable, Iterator, Mapping, Sequence
from heapq import merge

from loopkit.language.guard.kleene import UNKNOWN, equality


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
