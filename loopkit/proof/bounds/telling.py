"""Telling apart: what the conditions of guards distinguish in facts."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeGuard

from loopkit.language.guard import Guard
from loopkit.language.guard.kleene import UNKNOWN, equality, truth
from loopkit.language.guard.tree import names_in

_OTHER = object()
"""A value that no condition names."""


class Telling:
    """Tells facts apart by the truth of conditions, and some facts by their value.

    Hundreds of conditions may compare a fact with one value each; they are one look at the value.
    """

    def __init__(self, conditions: Iterable[ast.expr], by_value: Sequence[str] = ()) -> None:
        self._by_value = by_value
        self._cases: dict[str, set[object]] = {}
        """The values that a fact is compared with for equality."""
        others: dict[str, ast.expr] = {}
        for condition in conditions:
            if (needed := equality(condition)) is None:
                others.setdefault(ast.dump(condition), condition)
            else:
                self._cases.setdefault(needed[0], {UNKNOWN}).add(needed[1])
        self._others = tuple(others.values())

    def of(self, facts: Mapping[str, object]) -> tuple[object, ...]:
        """The same for facts that nothing distinguishes."""
        return (
            *(truth(condition, facts) for condition in self._others),
            *(facts[f] if facts[f] in values else _OTHER for f, values in self._cases.items()),
            *(facts[fact] for fact in self._by_value),
        )


def alike(name: str, guards: Iterable[Guard]) -> Callable[[object], object]:
    """A function that maps all values that no guard distinguishes to one of them."""
    tests = [node for guard in guards for node in ast.walk(guard.tree) if _tests(node, name)]
    if any(len(names_in(test)) > 1 for test in tests):
        return lambda value: value
    telling, stand_ins = Telling(tests), dict[tuple[object, ...], object]()

    def stand_in(value: object) -> object:
        return stand_ins.setdefault(telling.of({name: value}), value)

    return stand_in


def _tests(node: ast.AST, name: str) -> TypeGuard[ast.expr]:
    """Whether a part of a guard is a smallest condition on a name."""
    if isinstance(node, ast.Compare):
        return name in names_in(node)
    return isinstance(node, ast.Name) and node.id == name
