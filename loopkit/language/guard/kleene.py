"""The truth of guards, three-valued where only some facts are known, and of requirements.

Both have one evaluator, which reads facts or data by name. Of data every field may be missing; a
requirement is total on it.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from loopkit.language.guard.grammar import GuardError, names_in, parse
from loopkit.language.guard.type_check import check_untyped
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


class Facts(Protocol):
    def get(self, name: str, default: object, /) -> object: ...


_ORDERS: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_KINDS: Mapping[type, type] = {
    bool: bool,
    int: float,
    float: float,
    str: str,
    type(None): type(None),
}


def truth(node: ast.expr, facts: Facts) -> bool | None:
    """Whether a guard surely holds, surely does not, or (None) may do either.

    Facts that are not given, or are UNKNOWN, may be anything. Total on every parsed guard, whose
    parts mean what `Requirement.holds` says.
    """
    value = _value(node, facts)
    return None if value is UNKNOWN else value is True


def equality(node: ast.expr) -> tuple[str, object] | None:
    """The fact and the value that a condition compares for equality, if it does nothing else."""
    match node:
        case ast.Compare(left=ast.Name(id=fact), ops=[ast.Eq()], comparators=[ast.Constant(value)]):
            return fact, value
        case _:
            return None


def _value(node: ast.expr, facts: Facts) -> object:
    read = _READERS.get(type(node))
    return UNKNOWN if read is None else read(node, facts)


def _negation(node: ast.UnaryOp, facts: Facts) -> object:
    held = truth(node.operand, facts)
    return UNKNOWN if held is None else not held


def _connective(node: ast.BoolOp, facts: Facts) -> object:
    """`and` is decided by one false part, `or` by one true part."""
    decisive, is_told = isinstance(node.op, ast.Or), True
    for part in node.values:
        held = truth(part, facts)
        if held is decisive:
            return decisive
        is_told = is_told and held is not None
    return not decisive if is_told else UNKNOWN


def _comparison(node: ast.Compare, facts: Facts) -> object:
    left, op, right = _value(node.left, facts), node.ops[0], _value(node.comparators[0], facts)
    if left is UNKNOWN or right is UNKNOWN:
        return UNKNOWN
    if isinstance(op, ast.Eq | ast.NotEq):
        return _equal(left, right) is isinstance(op, ast.Eq)
    if isinstance(op, ast.In | ast.NotIn):
        held = _is_in(left, right)
        return UNKNOWN if held is None else held is isinstance(op, ast.In)
    kind = _kind(left)
    return kind in (float, str) and kind is _kind(right) and _ORDERS[type(op)](left, right)


def _is_in(value: object, holder: object) -> bool | None:
    if isinstance(holder, Held):
        return holder.tells(value)
    if isinstance(holder, (list, tuple)) and not isinstance(value, str):
        return any(_equal(value, item) for item in holder)
    # A text equals nothing but texts, so that Python may look for it.
    return isinstance(holder, (list, tuple, frozenset, str, Mapping)) and (
        isinstance(value, str) and value in holder
    )


def _kind(value: object) -> type | None:
    """The type of all values comparable with this one; None if it is not a scalar."""
    return _KINDS.get(type(value)) or (str if isinstance(value, str) else None)


def _equal(left: object, right: object) -> bool:
    kind = _kind(left)
    return kind is not None and kind is _kind(right) and left == right


# By their types: a proof asks a million times, and to try one pattern after the other takes longer.
_READERS: dict[type[ast.expr], Callable[[Any, Facts], object]] = {
    ast.Name: lambda node, facts: facts.get(node.id, UNKNOWN),
    ast.Constant: lambda node, _: node.value,
    ast.List: lambda node, facts: [_value(item, facts) for item in node.elts],
    ast.UnaryOp: _negation,
    ast.BoolOp: _connective,
    ast.Compare: _comparison,
}


class Requirement(Value, frozen=True, eq=False):
    text: str
    tree: ast.expr
    names: frozenset[str]
    """The dotted names that it reads, `.count` included: {"nodes.count", "item.id"}."""

    def holds(self, value: object, names: Mapping[str, object]) -> bool:
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
        """
        return truth(self.tree, _Data(value, names)) is True


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

    def get(self, name: str, _: object) -> object:
        head, *rest = name.split(".")
        own = isinstance(self.value, Mapping) and head in self.value
        data = _member(self.value if own else self.names, head)
        for step in rest:
            data = _member(data, step)
        return data


def _member(data: object, step: str) -> object:
    if isinstance(data, Mapping) and step in data:
        return data[step]
    if step == "count" and isinstance(data, (list, tuple, str, Mapping)):
        return len(data)
    return None
