"""Domains: for each fact that guards compare, the few values that represent all others."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from itertools import pairwise
from math import floor, inf

from loopkit.language.datatypes import DataType, single_values
from loopkit.language.guard import Guard, GuardType

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
    ranges = {
        dotted: range(int(known.minimum), int(known.maximum) + 1)
        for dotted, known in single_values(inputs, "input.")
        if known.bounded and known.minimum is not None and known.maximum is not None
    }
    return {dotted: values for dotted, values in ranges.items() if len(values) <= MOST_VALUES}


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
