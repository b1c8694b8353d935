"""Typed fields out of a text: sections, first matches, lists of matches, counts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from loopkit.definition.states import (
    Extract,
    ExtractAll,
    ExtractCount,
    ExtractMatch,
    ExtractSection,
)
from loopkit.markdown import section, with_line_feeds
from loopkit.patterns import occurrences

if TYPE_CHECKING:
    from regex import Match


def extract(
    text: str, fields: Mapping[str, Extract], patterns: Mapping[str, str]
) -> dict[str, object]:
    """The value of every field, in the order of `fields`.

    A section is its text, a match what `taken` says; both are the field's default, else None,
    where the text has none. `all` is a list of matches in order, each once. `count` is how often
    the pattern matches; its default stands for 0. Patterns see LF line ends, and code as well.
    Raises PatternError and PatternTimeout.
    """
    body = with_line_feeds(text)
    return {name: _value(how, body, patterns) for name, how in fields.items()}


def taken(match: Match[str]) -> str:
    """The first group that took part in the match; without one the whole match."""
    return next((group for group in match.groups() if group is not None), match.group())


def _value(how: Extract, text: str, patterns: Mapping[str, str]) -> object:
    match how:
        case ExtractSection():
            found = section(text, how.section, or_title=how.or_title)
            return how.default if found is None else found
        case ExtractMatch():
            first = next(occurrences(how.match, text, patterns), None)
            return how.default if first is None else taken(first)
        case ExtractAll():
            return list(dict.fromkeys(map(taken, occurrences(how.all, text, patterns))))
        case ExtractCount():
            count = sum(1 for _ in occurrences(how.count, text, patterns))
            return how.default if count == 0 and how.default is not None else count
