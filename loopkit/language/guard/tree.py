"""A parsed guard: its tree, and the names and comparisons in it.

The tree is made of `ast` nodes, so that Python compiles it, but only the nodes of the language
can be in it: BoolOp, Not, Compare with one operator, Name, Constant, List of Constants. A dotted
name is one Name with the dots in its `id`. `col_offset` counts characters.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import TypeVar

from loopkit.values import Value

Constant = str | int | float | bool | None
_Expr = TypeVar("_Expr", bound=ast.expr)


class Guard(Value, frozen=True, eq=False):
    """A parsed guard. Two guards are equal only where they are the same one."""

    text: str
    tree: ast.expr
    """Shared, never changed in place."""
    names: frozenset[str]
    """The dotted names that it reads: {"valid", "input.max_revisions"}."""


def names_in(tree: ast.expr) -> frozenset[str]:
    return frozenset(node.id for node in ast.walk(tree) if isinstance(node, ast.Name))


def conditions(node: ast.expr) -> Iterator[ast.expr]:
    """The smallest conditions of a guard, in their order."""
    match node:
        case ast.BoolOp(values=parts):
            for part in parts:
                yield from conditions(part)
        case ast.UnaryOp(operand=part):
            yield from conditions(part)
        case _:
            yield node


def constants(condition: ast.expr) -> Iterator[object]:
    """The literals of a condition."""
    for node in ast.walk(condition):
        if isinstance(node, ast.Constant):
            yield node.value


def rebuild(
    node: ast.expr, stand_in: Callable[[ast.Name], ast.expr], place: ast.expr | None = None
) -> ast.expr:
    """Return a new tree in which `stand_in` replaces each name; the old tree is unchanged.

    Every node but those that stand in gets the place of `place`, where given, else its old one.
    """
    match node:
        case ast.Name():
            return stand_in(node)
        case ast.BoolOp(op=op, values=values):
            new: ast.expr = ast.BoolOp(op, [rebuild(value, stand_in, place) for value in values])
        case ast.UnaryOp(op=op, operand=operand):
            new = ast.UnaryOp(op, rebuild(operand, stand_in, place))
        case ast.Compare(left=left, ops=ops, comparators=[right]):
            sides = [rebuild(side, stand_in, place) for side in (left, right)]
            new = ast.Compare(sides[0], ops, sides[1:])
        case ast.List(elts=items):
            new = ast.List([rebuild(item, stand_in, place) for item in items], ast.Load())
        case ast.Constant(value=value):
            new = ast.Constant(value)
        case _:
            raise AssertionError(f"a guard has no {type(node).__name__}")
    return at_place_of(place or node, new)


def at_place_of(place: ast.expr, node: _Expr) -> _Expr:
    """Give the new node the place of another one, and return it."""
    return set_place(node, place.col_offset, end_of(place))


def set_place(node: _Expr, start: int, end: int) -> _Expr:
    """Note its place in the text on a node that is not shared yet, and return it."""
    node.lineno = node.end_lineno = 1
    node.col_offset, node.end_col_offset = start, end
    return node


def end_of(node: ast.expr) -> int:
    return node.end_col_offset or node.col_offset
