"""The keywords that look at a value alone.

In place of the library's own, which compare each item with each, search with `re` and write the
whole value into a message.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

from jsonschema import ValidationError

from loopkit.language.json_schema.equality import canonical
from loopkit.language.json_schema.excerpts import LIMIT, excerpt, join_excerpts
from loopkit.language.json_schema.judging import NotJudged, judging
from loopkit.text.patterns import PatternError, PatternTimeout, compile_pattern

Errors = Iterator[ValidationError]
Validator = Any
"""The library makes its classes of validators as it runs."""
Keyword = Callable[[Validator, Any, Any, Mapping[str, Any]], Errors]


def is_found(pattern: str, text: str) -> bool:
    """Whether a pattern of a schema occurs in a text; raises NotJudged."""
    left_s = judging().look_at_clock()
    try:
        return compile_pattern(pattern, lines=False).search(text, timeout=left_s) is not None
    except TimeoutError as error:
        raise NotJudged(str(PatternTimeout(pattern, judging().limit_s))) from error
    except PatternError as error:
        raise NotJudged(str(error)) from error


def _const(_: Validator, const: object, instance: object, __: Any) -> Errors:
    if not _is_one_of(instance, [const], const):
        yield ValidationError(f"{excerpt(const)} was expected")


def _enum(_: Validator, values: Sequence[object], instance: object, __: Any) -> Errors:
    if not _is_one_of(instance, values, values):
        yield ValidationError(f"{excerpt(instance)} is not one of {excerpt(values, 2 * LIMIT)}")


def _is_one_of(instance: object, values: Sequence[object], owner: object) -> bool:
    known = judging().known
    if id(owner) not in known:
        known[id(owner)] = frozenset(map(canonical, values))
    return canonical(instance) in known[id(owner)]


def _type(validator: Validator, types: str | Sequence[str], instance: object, _: Any) -> Errors:
    types = [types] if isinstance(types, str) else types
    if not any(validator.is_type(instance, kind) for kind in types):
        yield ValidationError(f"{excerpt(instance)} is not of type {join_excerpts(types)}")


def _pattern(validator: Validator, pattern: str, instance: str, _: Any) -> Errors:
    if validator.is_type(instance, "string") and not is_found(pattern, instance):
        yield ValidationError(f"{excerpt(instance)} does not match {excerpt(pattern)}")


def _multiple_of(validator: Validator, unit: float, instance: float, _: Any) -> Errors:
    if validator.is_type(instance, "number") and (_exact(instance) / _exact(unit)).denominator != 1:
        yield ValidationError(f"{instance!r} is not a multiple of {unit!r}")


def _exact(number: float) -> Fraction:
    """The exact decimal as written, such as 0.1, instead of the nearest binary float."""
    return Fraction(repr(number)) if isinstance(number, float) else Fraction(number)


def _unique_items(validator: Validator, wanted: bool, instance: Any, _: Any) -> Errors:
    if not (wanted and validator.is_type(instance, "array")):
        return
    seen: set[str] = set()
    for item in instance:
        judging().look_at_clock()
        if (text := canonical(item)) in seen:
            yield ValidationError(f"{excerpt(instance)} has {excerpt(item)} twice")
            return
        seen.add(text)


def _at_least(kind: str, what: str) -> Keyword:
    def keyword(validator: Validator, least: int, instance: Any, _: Any) -> Errors:
        if validator.is_type(instance, kind) and len(instance) < least:
            said = "should be non-empty" if least == 1 else what
            yield ValidationError(
                f"{excerpt(instance)} {said}{_length_note(instance, least, 'least')}"
            )

    return keyword


def _at_most(kind: str, what: str) -> Keyword:
    def keyword(validator: Validator, most: int, instance: Any, _: Any) -> Errors:
        if validator.is_type(instance, kind) and len(instance) > most:
            said = "is expected to be empty" if most == 0 else what
            yield ValidationError(
                f"{excerpt(instance)} {said}{_length_note(instance, most, 'most')}"
            )

    return keyword


def _length_note(instance: Any, bound: float, end: str) -> str:
    """The length of the instance and its bound, as a note; "" if the bound is obvious."""
    return f" ({len(instance):,}, at {end} {bound:,})" if bound > 1 else ""


VALUE_KEYWORDS: Mapping[str, Keyword] = {
    "const": _const,
    "enum": _enum,
    "type": _type,
    "pattern": _pattern,
    "multipleOf": _multiple_of,
    "uniqueItems": _unique_items,
    "minLength": _at_least("string", "is too short"),
    "maxLength": _at_most("string", "is too long"),
    "minItems": _at_least("array", "is too short"),
    "maxItems": _at_most("array", "is too long"),
    "minProperties": _at_least("object", "does not have enough properties"),
    "maxProperties": _at_most("object", "has too many properties"),
}
