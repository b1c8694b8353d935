"""A short text that a pattern matches, made from the pattern itself."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any

from loopkit.text.patterns import PatternError, PatternTimeout, occurrences

_LETTERS = "aA1 _-.,:#*`'\"/\\()[]{}\n\t"
"""The characters that are tried, in this order, where many would match."""
_CLASSES = {"digit": r"\d", "not_digit": r"\D", "space": r"\s", "not_space": r"\S",
            "word": r"\w", "not_word": r"\W"}  # fmt: skip


def sample(pattern: str, named: Mapping[str, str]) -> str | None:
    """A text in which the pattern is found; None where none could be made.

    `pattern` may be a name in `named`. Text around a match, as for a lookahead, is not made; the
    result is tried on the real pattern.
    """
    source = named.get(pattern, pattern)
    try:
        # The only reader of patterns as trees that the standard library has.
        tree = import_module("re._parser").parse(source, re.MULTILINE)
        made = _text(tree, {})
        return made if any(True for _ in occurrences(source, made)) else None
    except (re.error, PatternError, PatternTimeout, _Unmade, RecursionError, OverflowError):
        return None


Groups = dict[int, str]
"""The text that was made for each group of one sample, by number."""


class _Unmade(Exception):
    """A part of a pattern for which no text is made."""


def _text(parts: Iterable[tuple[Any, Any]], groups: Groups) -> str:
    return "".join(_part(str(kind), value, groups) for kind, value in parts)


def _part(kind: str, value: Any, groups: Groups) -> str:
    make = _MAKERS.get(kind)
    if make is None:
        raise _Unmade(kind)
    return make(value, groups)


def _repeat(value: Any, groups: Groups) -> str:
    least, _, parts = value
    return "".join(_text(parts, groups) for _ in range(least))


def _group(value: Any, groups: Groups) -> str:
    number, parts = value[0], value[-1]
    groups[number] = _text(parts, groups)
    return groups[number]


def _one_of(value: Any, _groups: Groups) -> str:
    negated = str(value[0][0]) == "NEGATE"
    members = value[1:] if negated else value
    if not negated:
        return _member(*members[0])
    return _first(lambda letter: not any(_is_in(letter, *member) for member in members))


def _member(kind: Any, value: Any) -> str:
    match str(kind):
        case "LITERAL":
            return chr(value)
        case "RANGE":
            return chr(value[0])
        case _:
            return _of_class(value)


def _is_in(letter: str, kind: Any, value: Any) -> bool:
    match str(kind):
        case "LITERAL":
            return bool(ord(letter) == value)
        case "RANGE":
            return bool(value[0] <= ord(letter) <= value[1])
        case _:
            return re.fullmatch(_class(value), letter) is not None


def _of_class(value: Any, _groups: object = None) -> str:
    return _first(lambda letter: re.fullmatch(_class(value), letter) is not None)


def _class(value: Any) -> str:
    name = str(value).removeprefix("CATEGORY_").lower()
    if name not in _CLASSES:
        raise _Unmade(name)
    return _CLASSES[name]


def _first(fits: Callable[[str], bool]) -> str:
    found = next((letter for letter in _LETTERS if fits(letter)), None)
    if found is None:
        raise _Unmade("a class without a usual character")
    return found


_MAKERS: Mapping[str, Callable[[Any, Groups], str]] = {
    "LITERAL": lambda value, _: chr(value),
    "NOT_LITERAL": lambda value, _: _first(lambda letter: ord(letter) != value),
    "ANY": lambda _value, _groups: "a",
    "IN": _one_of,
    "CATEGORY": _of_class,
    "BRANCH": lambda value, groups: _text(value[1][0], groups),
    "SUBPATTERN": _group,
    "ATOMIC_GROUP": _text,
    "MAX_REPEAT": _repeat,
    "MIN_REPEAT": _repeat,
    "POSSESSIVE_REPEAT": _repeat,
    "GROUPREF": lambda value, groups: groups.get(value, ""),
    **dict.fromkeys(("AT", "ASSERT", "ASSERT_NOT"), lambda _value, _groups: ""),
}
