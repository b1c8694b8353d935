"""Three-valued truth of guards: what is known of a condition when only some facts are known."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any

UNKNOWN = object()
"""The value of a fact that may be anything."""


class Held(frozenset[str]):
    """Texts that a list surely holds; of any that is not among `absent` it may hold more."""

    absent: frozenset[str]

    def __new__(cls, present: Iterable[str], absent: Iterable[str]) -> Held:
        held = super().__new__(cls, present)
        held.absent = frozenset(absent)
        return held

    def beside(self, other: Held) -> Held:
        """The knowledge of both combined."""
        return Held(self | other, self.absent | other.absent)

    def tells(self, text: object) -> bool | None:
        """Whether the list surely holds a text, surely does not, or may do either."""
        return True if text in self else False if text in self.absent else None


_OPERATIONS: dict[type[ast.cmpop], Callable[[object, object], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
ORDERS: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


def truth(node: ast.expr, facts: Mapping[str, object]) -> bool | None:
    """Whether a guard surely holds, surely does not, or (None) may do either.

    Facts that are not given, or are UNKNOWN, may be anything. Total on every parsed guard.
    """
    value = _value(node, facts)
    return value if isinstance(value, bool) else None


def equality(node: ast.expr) -> tuple[str, object] | None:
    """The fact and the value that a condition compares for equality, if it does nothing else."""
    match node:
        case ast.Compare(left=ast.Name(id=fact), ops=[ast.Eq()], comparators=[ast.Constant(value)]):
            return fact, value
        case _:
            return None


def _value(node: ast.expr, facts: Mapping[str, object]) -> object:
    read = _READERS.get(type(node))
    return UNKNOWN if read is None else read(node, facts)


def _negation(node: ast.UnaryOp, facts: Mapping[str, object]) -> object:
    held = truth(node.operand, facts)
    return UNKNOWN if held is None else not held


def _connective(node: ast.BoolOp, facts: Mapping[str, object]) -> object:
    """`and` is decided by one false part, `or` by one true part."""
    decisive, is_told = isinstance(node.op, ast.Or), True
    for part in node.values:
        held = truth(part, facts)
        if held is decisive:
            return decisive
        is_told = is_told and held is not None
    return not decisive if is_told else UNKNOWN


def _comparison(node: ast.Compare, facts: Mapping[str, object]) -> object:
    match node:
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            return _compare(_value(left, facts), op, _value(right, facts))
        case _:
            return UNKNOWN


def _compare(left: object, op: ast.cmpop, right: object) -> object:
    if left is UNKNOWN or right is UNKNOWN:
        return UNKNOWN
    if isinstance(op, ast.In | ast.NotIn) and isinstance(right, list | frozenset):
        held = right.tells(left) if isinstance(right, Held) else left in right
        return UNKNOWN if held is None else held == isinstance(op, ast.In)
    if type(op) in _OPERATIONS:
        return _OPERATIONS[type(op)](left, right)
    if isinstance(left, int | float) and isinstance(right, int | float):
        return ORDERS[type(op)](left, right)
    # No value is less than none; an evaluated guard has tested for none before.
    return UNKNOWN


# By their types: a proof asks a million times, and to try one pattern after the other takes longer.
_READERS: dict[type[ast.expr], Callable[[Any, Mapping[str, object]], object]] = {
    ast.Name: lambda node, facts: facts.get(node.id, UNKNOWN),
    ast.Constant: lambda node, _: node.value,
    ast.List: lambda node, facts: [_value(item, facts) for item in node.elts],
    ast.UnaryOp: _negation,
    ast.BoolOp: _connective,
    ast.Compare: _comparison,
}
