"""What rules can find, counted out one finding at a time: a second opinion on their reports."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from loopkit.language.validators import PythonRule
from loopkit.language.validators.command import CommandRule
from loopkit.language.validators.judge import JudgeRule

ONE = ("min_chars", "max_chars", "min_words", "max_words", "contains", "matches", "section")
"""The rules that say one thing or nothing."""


class Found(NamedTuple):
    """The findings of a report, as far as guards can tell."""

    errors: int = 0
    warnings: int = 0
    codes: frozenset[str] = frozenset()
    is_wanted: bool = False
    """One that blocks is by a rule that has to have one."""


class Finder(NamedTuple):
    """One rule: how often it finds something, with which codes, and whether that blocks."""

    most: int
    codes: tuple[str, ...]
    kinds: tuple[bool, ...]
    """True for a finding that blocks, False for another one."""
    is_wanted: bool = False


def finder(
    rule: Any, words: Sequence[str], kinds: Collection[bool], limit: int, *, is_wanted: bool
) -> Finder:
    """A rule where guards name these codes; no more findings than `limit` are told apart."""
    return Finder(_most(rule, limit), tuple(_codes(rule, words)), tuple(kinds), is_wanted)


def _most(rule: Any, limit: int) -> int:
    names_one = any(getattr(rule, kind, None) is not None for kind in ONE)
    is_exit_code = isinstance(rule, CommandRule) and (rule.parse, rule.verdict) == (
        "exit_code",
        None,
    )
    is_whole = getattr(rule, "require", None) is not None and rule.each is None
    return 1 if names_one or is_exit_code or is_whole else limit


def _codes(rule: Any, words: Sequence[str]) -> Iterator[str]:
    """The codes that its findings may have; "" is none."""
    if not isinstance(rule, JudgeRule) and rule.code:
        yield rule.code
        return
    yield ""
    reads = isinstance(rule, CommandRule) and rule.parse in ("lines", "sarif", "report")
    mapped = getattr(rule, "map", None)
    if mapped is not None and mapped.codes:
        yield from mapped.codes.values()
    elif isinstance(rule, JudgeRule | PythonRule) or reads:
        yield from words


def counted_out(
    finders: Iterable[Finder], limit: int, beside: Iterable[Found] = (Found(),)
) -> set[Found]:
    """Everything that they can find together, with at most so many findings of a kind."""
    reached = set(beside)
    for one in finders:
        front = reached
        for _ in range(one.most):
            front = {more for found in front for more in _more(found, one, limit)} - reached
            reached = reached | front
    return reached


def _more(found: Found, one: Finder, limit: int) -> Iterator[Found]:
    for blocks in one.kinds:
        for code in one.codes:
            codes = found.codes | {code} if code else found.codes
            more = Found(
                found.errors + blocks,
                found.warnings + (not blocks),
                codes,
                found.is_wanted or (blocks and one.is_wanted),
            )
            if max(more.errors, more.warnings) <= limit:
                yield more


def plainest(
    found: Iterable[Found], read: Mapping[str, Collection[int]], words: Collection[str]
) -> list[Found]:
    """One for all that guards can't tell apart: counts that nobody reads are as small as can be."""
    kept: dict[tuple[object, ...], Found] = {}
    for one in sorted(found, key=lambda f: (f.errors + f.warnings, sorted(f.codes))):
        counts = {"error_count": one.errors, "warning_count": one.warnings}
        if any(counts[name] not in values for name, values in read.items()):
            continue
        key = (*(counts[name] for name in read), one.codes & frozenset(words))
        kept.setdefault(key, one)
    return list(kept.values())
