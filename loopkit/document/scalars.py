"""Plain scalars by the core schema of YAML 1.2.

`yes`, `on`, `2001-01-01`, `1_000` and `1:30` are text there, `012` is twelve. Numbers that no
JSON can carry (infinite, not a number, beyond 64 bits) are refused.
"""

from __future__ import annotations

import math
import re

Scalar = str | int | float | bool | None

_CONSTANTS: dict[str, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_NUMERIC_START = frozenset("+-.0123456789")
_DECIMAL = re.compile(r"[-+]?[0-9]+")
_OCTAL = re.compile(r"0o[0-7]+")
_HEXADECIMAL = re.compile(r"0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
# More digits than 64 bits can need; Python itself refuses to convert thousands of them.
_DIGITS = 24
_SMALLEST, _LARGEST = -(2**63), 2**63 - 1


class UnusableNumber(ValueError):
    """A number that YAML has and JSON has not; the text says which kind."""


def resolve(text: str) -> Scalar:
    """Return the value of the plain scalar `text`.

    Raises `UnusableNumber` where that is a number outside the range of data.
    """
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    return _number(text) if text[0] in _NUMERIC_START else text


def _number(text: str) -> str | int | float:
    if _DECIMAL.fullmatch(text):
        return _integer(text, 10)
    if _OCTAL.fullmatch(text):
        return _integer(text[2:], 8)
    if _HEXADECIMAL.fullmatch(text):
        return _integer(text[2:], 16)
    if _NOT_FINITE.fullmatch(text):
        raise UnusableNumber("is not a finite number")
    if not _FLOAT.fullmatch(text):
        return text
    if math.isinf(number := float(text)):
        raise UnusableNumber("is too large for a number")
    return number


def _integer(digits: str, base: int) -> int:
    if len(digits.lstrip("+-0")) > _DIGITS or not _SMALLEST <= int(digits, base) <= _LARGEST:
        raise UnusableNumber("does not fit into 64 bits")
    return int(digits, base)
