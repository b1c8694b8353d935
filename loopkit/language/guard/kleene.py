"""The truth of guards: three-valued where only some facts are known, and over data for `require:`.

Of data every field may be missing; a requirement is total on it.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from loopkit.language.guard.grammar import GuardError, names_in, parse
from loopkit.language.guard.type_check import check_untyped
from loopkit.text.json_text import canonical
from loopkit.values import Value

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
        return Held(self | other, self.absent | other.absent)

    def tells(self, text: object) -> bool | None:
        """Whether the list surely holds a text, surely does not, or may do either."""
        return True if text in self else False if text in self.absent else None


_NEGATION = {True: False, False: True, None: UNKNOWN}
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
    left, [op], right = _value(node.left, facts), node.ops, _value(node.comparators[0], facts)
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
    ast.UnaryOp: lambda node, facts: _NEGATION[truth(node.operand, facts)],
    ast.BoolOp: _connective,
    ast.Compare: _comparison,
}

FEW = 16
"""Up to so many items a list is gone through."""
Known = dict[int, tuple[object, frozenset[object]]]
"""Longer lists with what they hold, by their identity."""


class Requirement(Value, frozen=True, eq=False):
    text: str
    tree: ast.expr
    names: frozenset[str]
    """The dotted names that it reads, `.count` included: {"nodes.count", "item.id"}."""

    def holds(self, value: object, names: Mapping[str, object], known: Known | None = None) -> bool:
        """Whether the requirement is met by `value`: the artifact, or one item of it.

        Total on JSON data; never raises. A name is looked up as a field of `value`, and if there
        is no such field in `names` (`item`, `index`, `artifact`, `input`). What is missing is
        none. `PATH.count` is the number of items, fields or characters, unless there is a field
        of that name; of anything else it is none.

        - `==` compares scalars by kind and value: 1 equals 1.0, and true equals no number. A list
          or a mapping equals nothing. `!=` is its opposite.
        - `< <= > >=` hold for two numbers, or for two texts by code point, and are false for
          everything else, none included.
        - `x in PATH` holds if a list has an item equal to `x`, a text contains the text `x`, or a
          mapping has the field `x`; `not in` is its opposite, so true of what is missing.
        - `and`, `or`, `not` and the whole take only true for true: `not x` holds for a missing x.

        Who asks about many items of the same data gives one `known` for all of them.
        """
        return _truth(self.tree, _Data(value, names, {} if known is None else known))


def parse_requirement(text: str) -> Requirement:
    """The requirement that `text` spells.

    Raises GuardError for what is no guard, and for what no data can meet: `1 < "a"`.
    """
    guard = parse(text)
    wrong = check_untyped(guard.tree)
    if wrong:
        raise GuardError(wrong[0])
    return Requirement(text, guard.tree, names_in(guard.tree))


class _Data(Value, frozen=True):
    value: object
    names: Mapping[str, object]
    known: Known

    def find(self, name: str) -> object:
        head, *rest = name.split(".")
        own = isinstance(self.value, Mapping) and head in self.value
        data = _member(self.value if own else self.names, head)
        for step in rest:
            data = _member(data, step)
        return data

    def is_in(self, value: object, holder: object) -> bool:
        if isinstance(holder, (list, tuple)):
            if len(holder) <= FEW:
                return any(_equal(value, item) for item in holder)
            if id(holder) not in self.known:
                # With the list itself, or another one could get its identity.
                self.known[id(holder)] = holder, frozenset(map(_same_as, holder))
            return _kind(value) is not None and _same_as(value) in self.known[id(holder)][1]
        if isinstance(holder, (str, Mapping)):
            return isinstance(value, str) and value in holder
        return False


def _member(data: object, step: str) -> object:
    if isinstance(data, Mapping) and step in data:
        return data[step]
    if step == "count" and isinstance(data, (list, tuple, str, Mapping)):
        return len(data)
    return None


def _truth(node: ast.expr, data: _Data) -> bool:
    match node:
        case ast.UnaryOp(operand=operand):
            return not _truth(operand, data)
        case ast.BoolOp(op=ast.And(), values=values):
            return all(_truth(value, data) for value in values)
        case ast.BoolOp(values=values):
            return any(_truth(value, data) for value in values)
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            return _compare_json(_operand(left, data), op, _operand(right, data), data)
        case _:
            return _operand(node, data) is True


def _operand(node: ast.expr, data: _Data) -> object:
    match node:
        case ast.Name(id=name):
            return data.find(name)
        case ast.Constant(value=value):
            return value
        case ast.List(elts=items):
            return [_operand(item, data) for item in items]
        case _:
            return _truth(node, data)


def _compare_json(left: object, op: ast.cmpop, right: object, data: _Data) -> bool:
    if isinstance(op, ast.Eq | ast.NotEq):
        return _equal(left, right) is isinstance(op, ast.Eq)
    if isinstance(op, ast.In | ast.NotIn):
        return data.is_in(left, right) is isinstance(op, ast.In)
    alike = _kind(left) == _kind(right) and _kind(left) in (float, str)
    return alike and ORDERS[type(op)](left, right)


def _kind(value: object) -> type | None:
    """The type of all values comparable with this one; None if it is not a scalar."""
    if isinstance(value, bool) or value is None:
        return type(value)
    if isinstance(value, (int, float)):
        return float
    return str if isinstance(value, str) else None


def _equal(left: object, right: object) -> bool:
    kind = _kind(left)
    return kind is not None and kind is _kind(right) and left == right


def _same_as(value: object) -> object:
    """A key that is the same for equal single values and for no others."""
    kind = _kind(value)
    # Large numbers may share one hash; as texts they do not.
    return None if kind is None else (kind, canonical(value) if kind is float else value)
