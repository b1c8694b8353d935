"""Types of guards: every mistake of names and of comparisons, found before anything runs.

A name that may be none cannot be so after a condition that was true, or false: that narrows it.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping
from typing import Literal

from loopkit.document.problems import did_you_mean
from loopkit.language.guard.grammar import Guard, GuardProblem, problem_at
from loopkit.values import Value

Kind = Literal["bool", "int", "num", "str", "texts"]


class GuardType(Value, frozen=True):
    kind: Kind
    """`texts` is a list of texts: it stands only on the right of `in`."""
    values: tuple[str | int | float, ...] = ()
    """All the values that there are, where they are known."""
    optional: bool = False
    bounded: bool = False
    """It has few values, so that other numbers may be compared with it."""
    minimum: float | None = None
    """The least that it can be, where that is known."""
    maximum: float | None = None
    closed: bool = False
    """For texts: only `values` are possible, even if there are none."""


class _Known(Value, frozen=True):
    """The knowledge at the place of an expression. Without `types` a name may be anything."""

    types: Mapping[str, GuardType] | None
    present: frozenset[str] = frozenset()
    """Names that are not none here, because of what was tested before."""

    def having(self, names: frozenset[str]) -> _Known:
        return self.replace(present=self.present | names)

    def type_of(self, node: ast.expr) -> GuardType | None:
        match node:
            case ast.Name(id=name):
                known = self.types.get(name) if self.types is not None else None
                return known.replace(optional=False) if known and name in self.present else known
            case ast.Constant(value=value):
                kind = _LITERALS.get(type(value))
                return GuardType(kind) if kind is not None else None
            case _:
                return GuardType("bool")


def check(guard: Guard, names: Mapping[str, GuardType]) -> list[GuardProblem]:
    """Everything that is wrong with the names and types of the guard, in its order.

    `names` are all the names that stand here, dotted ones whole. A guard without problems can be
    evaluated on any values of these types: it gives true or false and cannot fail.
    """
    return list(_truth(guard.tree, _Known(names)))


def check_untyped(tree: ast.expr) -> list[GuardProblem]:
    """The mistakes that do not depend on the types of names: `1 < "a"`, `a or "b"`."""
    return list(_truth(tree, _Known(None)))


def _truth(node: ast.expr, known: _Known) -> Iterator[GuardProblem]:
    """The mistakes in an expression that must be true or false."""
    match node:
        case ast.BoolOp(op=op, values=values):
            for value in values:
                yield from _truth(value, known)
                known = known.having(present_if(value, isinstance(op, ast.And)))
        case ast.UnaryOp(operand=operand):
            yield from _truth(operand, known)
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            yield from _comparison(left, op, right, known)
        case _:
            yield from _operand(node, known)
            yield from _plain_truth(node, known.type_of(node))


def _plain_truth(node: ast.expr, found: GuardType | None) -> Iterator[GuardProblem]:
    if found is None:
        if is_none(node):
            yield _wrong(node, "none is neither true nor false", "compare a name with it")
    elif found.kind != "bool":
        message = f"{_quote(node)} is {_NOUNS[found.kind]}, not true or false"
        yield _wrong(node, message, _condition_with(node, found))
    elif found.optional:
        name = _bare(node)
        yield _wrong(node, f"`{name}` may be none", f"write `{name} == true`")


def _condition_with(node: ast.expr, found: GuardType) -> str:
    """The remedy for an operand that stands where a condition belongs."""
    if not isinstance(node, ast.Name):
        return "write the whole comparison on both sides of `and` and `or`, or use `in […]`"
    if found.kind == "texts":
        return f'write `"…" in {node.id}`'
    if found.kind == "str":
        example = json.dumps(found.values[0] if found.values else "…", ensure_ascii=False)
        return f"compare it: `{node.id} == {example}`"
    return f"compare it: `{node.id} > 0`"


def _operand(node: ast.expr, known: _Known) -> Iterator[GuardProblem]:
    """The mistakes inside an operand, whatever it is compared with."""
    match node:
        case ast.Name(id=name):
            if known.types is not None and name not in known.types:
                yield _unknown(node, known.types)
        case ast.Constant() | ast.List():
            return
        case _:
            yield from _truth(node, known)


def _unknown(node: ast.Name, types: Mapping[str, GuardType]) -> GuardProblem:
    if any(node.id in known.values for known in types.values()):
        remedy = f'a text needs quotes: "{node.id}"'
    else:
        remedy = did_you_mean(node.id, sorted(types))
    return _wrong(node, f"unknown name `{node.id}`", remedy, code="unknown-name")


def _comparison(
    left: ast.expr, op: ast.cmpop, right: ast.expr, known: _Known
) -> Iterator[GuardProblem]:
    inside = [*_operand(left, known), *_operand(right, known)]
    yield from inside
    if inside:
        return
    if isinstance(op, (ast.In, ast.NotIn)):
        yield from _membership(left, right, known)
    elif isinstance(op, (ast.Eq, ast.NotEq)):
        yield from _equality(left, right, known)
    else:
        yield from _order(left, right, known)


def _membership(left: ast.expr, right: ast.expr, known: _Known) -> Iterator[GuardProblem]:
    if isinstance(right, ast.List):
        for item in right.elts:
            yield from _equality(left, item, known)
        return
    found = known.type_of(right)
    if found is None:
        return
    if found.kind != "texts":
        message = f"{_quote(right)} is {_NOUNS[found.kind]}, not a list"
        yield _wrong(right, message, 'write a list: `in ["a", "b"]`')
    elif not isinstance(left, ast.Constant) or not isinstance(left.value, str):
        remedy = f'write `"…" in {_bare(right)}`'
        yield _wrong(left, f"only a quoted text can be looked up in {_quote(right)}", remedy)
    elif (found.values or found.closed) and left.value not in found.values:
        yield _never(left, left.value, right, found)


def _equality(left: ast.expr, right: ast.expr, known: _Known) -> Iterator[GuardProblem]:
    for node, other in ((left, right), (right, left)):
        if is_none(other):
            yield from _none_test(node, known)
            return
    first, second = known.type_of(left), known.type_of(right)
    for node, found in ((left, first), (right, second)):
        if found is not None and found.kind == "texts":
            yield _wrong(node, f"{_quote(node)} is a list", f'write `"…" in {_bare(node)}`')
            return
    if first is None or second is None:
        return
    if _family(first) != _family(second):
        yield _unlike(left, first, right, second)
        return
    yield from _values(left, first, right, second)


def _none_test(node: ast.expr, known: _Known) -> Iterator[GuardProblem]:
    if not isinstance(node, ast.Name):
        yield _wrong(node, "only a name can be none", "leave the comparison out")
    elif known.types is not None and not known.types[node.id].optional:
        yield _wrong(node, f"`{node.id}` is never none", "leave the comparison out")


def _values(
    left: ast.expr, first: GuardType, right: ast.expr, second: GuardType
) -> Iterator[GuardProblem]:
    """The mistakes in two operands of one kind: values that can never be equal."""
    for node, found, other in ((left, first, right), (right, second, left)):
        if found.values and isinstance(other, ast.Constant) and other.value not in found.values:
            yield _never(other, other.value, node, found)
    if first.values and second.values and set(first.values) != set(second.values):
        message = f"{_quote(left)} and {_quote(right)} have different values"
        listed = ", ".join(json.dumps(value, ensure_ascii=False) for value in first.values)
        yield _wrong(right, message, f"{_quote(left)} is one of {listed}")
    yield from _numbers(left, first, right, second)


def _numbers(
    left: ast.expr, first: GuardType, right: ast.expr, second: GuardType
) -> Iterator[GuardProblem]:
    names = isinstance(left, ast.Name) and isinstance(right, ast.Name)
    if names and _family(first) == "number" and not (first.bounded or second.bounded):
        remedy = "compare it with a number, or with an input that has a `minimum` and a `maximum`"
        message = f"neither {_quote(left)} nor {_quote(right)} has bounds"
        yield _wrong(right, message, remedy)


def _order(left: ast.expr, right: ast.expr, known: _Known) -> Iterator[GuardProblem]:
    first, second = known.type_of(left), known.type_of(right)
    # Data is ordered by number or by text: dates are texts there.
    ordered = ("number",) if known.types is not None else ("number", "str")
    wrong = [*_check_orderable(left, first, ordered), *_check_orderable(right, second, ordered)]
    yield from wrong
    if wrong or first is None or second is None:
        return
    if _family(first) != _family(second):
        yield _unlike(left, first, right, second)
    yield from _numbers(left, first, right, second)


def _check_orderable(
    node: ast.expr, found: GuardType | None, ordered: tuple[str, ...]
) -> Iterator[GuardProblem]:
    if is_none(node):
        yield _wrong(node, "none is neither less nor more", "compare with `==` or `!=`")
    elif found is not None and _family(found) not in ordered:
        message = f"{_quote(node)} is {_NOUNS[found.kind]}: it has no order"
        yield _wrong(node, message, "compare with `==`, `!=` or `in`")
    elif found is not None and found.optional:
        name = _bare(node)
        yield _wrong(node, f"`{name}` may be none", f"test it first: `{name} != none and …`")


def _unlike(left: ast.expr, first: GuardType, right: ast.expr, second: GuardType) -> GuardProblem:
    message = f"{_quote(left)} is {_NOUNS[first.kind]} and {_quote(right)} is {_NOUNS[second.kind]}"
    return _wrong(right, message, f"compare {_quote(left)} with {_NOUNS[first.kind]}")


_LITERALS: Mapping[type, Kind] = {bool: "bool", int: "int", float: "num", str: "str"}
_NOUNS = {
    "bool": "true or false",
    "int": "a number",
    "num": "a number",
    "str": "a text",
    "texts": "a list",
}


def _family(found: GuardType) -> str:
    return "number" if found.kind in ("int", "num") else found.kind


def _never(place: ast.expr, value: object, name: ast.expr, found: GuardType) -> GuardProblem:
    remedy = did_you_mean(str(value), [str(allowed) for allowed in found.values])
    if isinstance(value, str):
        remedy = re.sub("`(.*?)`", r'`"\1"`', remedy)
    holds = "never has" if found.kind == "texts" else "is never"
    return _wrong(place, f"{_quote(name)} {holds} {_bare(place)}", remedy, code="unknown-value")


def _bare(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name):
            return name
        case ast.Constant(value=value):
            return "none" if value is None else json.dumps(value, ensure_ascii=False)
        case _:
            return "this condition"


def _quote(node: ast.expr) -> str:
    return f"`{_bare(node)}`"


def _wrong(node: ast.expr, message: str, remedy: str, code: str = "guard-type") -> GuardProblem:
    return problem_at(node, code, message, remedy)


def present_if(node: ast.expr, outcome: bool) -> frozenset[str]:
    """The names that cannot be none when the expression comes out as `outcome`."""
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
