"""The truth of guards and of requirements, and paths into data such as `nodes[].needs[]`.

Guards and requirements have one evaluator, which reads facts or data by name. It is three-valued
where only some facts are known. Of data every field may be missing; a requirement is total on it.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol

from loopkit.language.guard.grammar import MAX_LENGTH, Guard, GuardError, parse, refusal
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

    def __eq__(self, other: object) -> bool:
        """Lists that hold the same may differ in what else they may hold."""
        is_same = super().__eq__(other) is True
        return is_same and getattr(other, "absent", self.absent) == self.absent

    __hash__ = frozenset.__hash__

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


class Requirement(Guard, frozen=True, eq=False):
    """A guard of data; its names have `.count` included: {"nodes.count", "item.id"}."""

    def holds(self, value: object, names: Mapping[str, object]) -> bool:
        """Whether the requirement is met by `value`: the artifact, or one item of it.

        Total on JSON data; never raises. A name is looked up as a field of `value`, and if there
        is no such field in `names` (`item`, `index`, `artifact`, `input`). What is missing is
        none. What the operators mean, the rule `require` of the language says.
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
    return Requirement(text, guard.tree, guard.names)


class _Data(Value, frozen=True):
    value: object
    names: Mapping[str, object]

    def get(self, name: str, _: object) -> object:
        head, *rest = name.split(".")
        own = self.value if isinstance(self.value, Mapping) and head in self.value else self.names
        data = own.get(head)
        for step in rest:
            data = _member(data, step)
        return data


def _member(data: object, step: str) -> object:
    if isinstance(data, Mapping) and step in data:
        return data[step]
    if step == "count" and isinstance(data, (list, tuple, str, Mapping)):
        return len(data)
    return None


def compile_guard(guard: Guard) -> Callable[[Mapping[str, object]], bool]:
    """The guard as a function of a flat mapping with a value for each of `guard.names`."""
    return lambda facts: truth(guard.tree, facts) is True


ITEMS = "[]"
_STEP = re.compile(r"(?P<items>\[\])|(?P<dot>\.?)(?P<field>[A-Za-z_][\w-]*)", re.ASCII)
_LOCATION = re.compile(r"\[(?P<index>\d+)\]|\.?(?P<field>[^.\[\]]+)")


def parse_path(text: str) -> tuple[str, ...]:
    """The steps of a path: fields by name, "[]" for each item of a list or mapping.

    `[]` alone stands for a list at the root. Raises GuardError for a malformed path.
    """
    if len(text) > MAX_LENGTH:
        message = f"the path is longer than {MAX_LENGTH:,}"
        raise refusal(MAX_LENGTH, len(text), message, "shorten it")
    if not text:
        raise refusal(0, 0, "the path is empty", "write it like `nodes[].id`, or `[]` for the root")
    steps: list[str] = []
    at = 0
    while at < len(text):
        step = _STEP.match(text, at)
        # The first field has no dot before it, every other one has.
        if step is None or (step["field"] and bool(step["dot"]) != (at > 0)):
            message = f"the path is malformed at `{text[at : at + 20]}`"
            raise refusal(at, len(text), message, "write it like `nodes[].id`")
        steps.append(step["field"] or ITEMS)
        at = step.end()
    return tuple(steps)


def select(path: str, data: object) -> list[tuple[str, object]]:
    """The values that the path leads to, each with its location: `nodes[2].id`.

    What is missing, or no mapping where a field is read, is none at the place where it should be;
    what is no list and no mapping has no items. Raises GuardError for a malformed path.
    """
    found: list[tuple[str, object]] = [("", data)]
    for step in parse_path(path):
        found = [next_one for one in found for next_one in _take_step(*one, step)]
    return found


def _take_step(location: str, data: object, step: str) -> Iterator[tuple[str, object]]:
    if step == ITEMS:
        if isinstance(data, (list, tuple)):
            for index, item in enumerate(data):
                yield f"{location}[{index}]", item
        elif isinstance(data, Mapping):
            for key, value in data.items():
                yield f"{location}.{key}" if location else str(key), value
        return
    place = f"{location}.{step}" if location else step
    yield place, data.get(step) if isinstance(data, Mapping) else None


def holder(location: str, data: object) -> object:
    """The innermost mapping around a location that `select` gave: the node of
    `nodes[2].needs[0]`. None where there is none.
    """
    found = None
    for step in _LOCATION.finditer(location):
        if isinstance(data, Mapping):
            found, data = data, data.get(step["field"])
        elif isinstance(data, (list, tuple)) and step["index"]:
            data = data[int(step["index"])] if int(step["index"]) < len(data) else None
    return found
