"""The operators of templates, bounded. Jinja's own are not: see rewriting.py."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

from loopkit.language.template.errors import Refusal
from loopkit.language.template.filters import with_cost
from loopkit.language.template.meter import deep_units, shallow_units, spend, step
from loopkit.language.template.plain_data import to_text

MAX_RANGE = 1_000
_LARGEST = 2**63


def _number(result: float) -> float:
    if isinstance(result, complex) or abs(result) >= _LARGEST or math.isnan(result):
        raise Refusal("a result is too large", "compute with smaller numbers")
    return result


def _numbers_only(sign: str, function: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def calculate(left: object, right: object) -> float:
        if not (isinstance(left, (int, float)) and isinstance(right, (int, float))):
            raise Refusal(f"`{sign}` takes numbers only", "join texts with `~`", "template-data")
        return _number(function(left, right))

    return calculate


def _add(left: Any, right: Any) -> Any:
    texts = isinstance(left, str) and isinstance(right, str)
    if texts or (isinstance(left, list) and isinstance(right, list)):
        return left + right
    return _numbers_only("+", operator.add)(left, right)


def _multiply(left: Any, right: Any) -> Any:
    if isinstance(left, str) and isinstance(right, int):
        spend(2 * len(left) * max(0, right))
        return left * right
    return _numbers_only("*", operator.mul)(left, right)


def _concatenate(values: list[object]) -> str:
    return "".join(map(to_text, values))


_COMPARISONS: Mapping[object, Callable[[Any, Any], bool]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "lteq": operator.le,
    "gt": operator.gt,
    "gteq": operator.ge,
    "in": lambda value, holder: value in holder,
    "notin": lambda value, holder: value not in holder,
}


def _holds(left: object, *rest: object) -> bool:
    """Compare in a chain: `a < b < c` comes as a, "lt", b, "lt", c."""
    for sign, right in zip(rest[::2], rest[1::2], strict=True):
        if not _COMPARISONS[sign](left, right):
            return False
        left = right
    return True


def _slice(value: Any, start: object, stop: object, step_: object) -> Any:
    return value[slice(start, stop, step_)]


def _range(*bounds: int) -> range:
    numbers = range(*bounds)
    if len(numbers) > MAX_RANGE:
        raise Refusal(f"`range` gives at most {MAX_RANGE:,} numbers", "loop over less")
    return numbers


def _itself(value: object) -> object:
    return value


def _cost_of_new(value: object) -> int:
    return 2 * deep_units(value)


OPERATORS: Mapping[str, Callable[..., Any]] = {
    "+": with_cost(_add, shallow_units),
    "-": with_cost(_numbers_only("-", operator.sub), shallow_units),
    "*": with_cost(_multiply, shallow_units),
    "/": with_cost(_numbers_only("/", operator.truediv), shallow_units),
    "//": with_cost(_numbers_only("//", operator.floordiv), shallow_units),
    "%": with_cost(_numbers_only("%", operator.mod), shallow_units),
    "~": with_cost(_concatenate, deep_units),
    "compare": with_cost(_holds, deep_units),
    "[:]": with_cost(_slice, shallow_units),
    "range()": with_cost(_range, shallow_units),
    # A list written in a template may hold another one many times, in many levels.
    "new": with_cost(_itself, _cost_of_new),
    "step": step,
}
