"""Narrowing: names that cannot be none after a condition was true, or false."""

from __future__ import annotations

import ast


def present_if(node: ast.expr, outcome: bool) -> frozenset[str]:
    """Return the names that cannot be none when the expression comes out as `outcome`."""
    match node:
        case ast.UnaryOp(operand=operand):
            return present_if(operand, not outcome)
        case ast.BoolOp(op=op, values=values):
            parts = [present_if(value, outcome) for value in values]
            # All parts of a true `and`, and of a false `or`, came out that way.
            every = isinstance(op, ast.And) == outcome
            return frozenset().union(*parts) if every else parts[0].intersection(*parts[1:])
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            return _present_if_compared(left, op, right, outcome)
        case ast.Name(id=name) if outcome:
            return frozenset({name})
        case _:
            return frozenset()


def _present_if_compared(
    left: ast.expr, op: ast.cmpop, right: ast.expr, outcome: bool
) -> frozenset[str]:
    name = next((node.id for node in (left, right) if isinstance(node, ast.Name)), "")
    if isinstance(op, (ast.NotEq, ast.NotIn)):
        outcome = not outcome
    if isinstance(op, (ast.In, ast.NotIn)):
        with_none = not isinstance(right, ast.List) or any(is_none(item) for item in right.elts)
        proven = outcome and not with_none
    elif is_none(left) or is_none(right):
        proven = not outcome
    else:
        proven = outcome and any(isinstance(node, ast.Constant) for node in (left, right))
    return frozenset({name}) if proven and name else frozenset()


def is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None
