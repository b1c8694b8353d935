"""Fields of a text: the artifact in a reply, and its sections, matches and counts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING

from loopkit.language.states.output import (
    Extract,
    ExtractAll,
    ExtractCount,
    ExtractMatch,
    ExtractSection,
    Output,
)
from loopkit.text.markdown import code_blocks, section, with_line_feeds, without_code
from loopkit.text.patterns import occurrences

if TYPE_CHECKING:
    from regex import Match


def body(text: str, output: Output) -> str:
    """The artifact in a text: the whole text, or the content of its only fence."""
    blocks = code_blocks(text) if output.fence == "strip" else ()
    return blocks[0][1].removesuffix("\n") if len(blocks) == 1 else text


def extract(
    text: str, fields: Mapping[str, Extract], patterns: Mapping[str, str]
) -> dict[str, object]:
    """The value of every field, in the order of `fields`.

    A section gives its text, a match its `text_of_match`. Where the text has none, the value is the
    field's default, else None. `all` is a list of matches in order, each once. `count` is how often
    the pattern matches; its default replaces 0. Patterns see LF line ends, and code as well, except
    in `all` and `count` with `outside_code`. All patterns share one time limit.
    Raises PatternError and PatternTimeout.
    """
    body = with_line_feeds(text)
    found_by = partial(occurrences, named=patterns, since_s=time.monotonic())
    return {name: _value(how, body, found_by) for name, how in fields.items()}


def text_of_match(match: Match[str]) -> str:
    """The first group that took part in the match; without one the whole match."""
    return next((group for group in match.groups() if group is not None), match.group())


def _value(how: Extract, text: str, found_by: Callable[[str, str], Iterator[Match[str]]]) -> object:
    match how:
        case ExtractSection():
            found = section(
                text,
                how.section,
                or_title=how.or_title,
                strip=how.strip,
                placeholders=how.placeholders,
            )
            return how.default if found is None else found
        case ExtractMatch():
            first = next(found_by(how.match, text), None)
            return how.default if first is None else text_of_match(first)
        case ExtractAll():
            searched = without_code(text) if how.outside_code else text
            return list(dict.fromkeys(map(text_of_match, found_by(how.all, searched))))
        case ExtractCount():
            searched = without_code(text) if how.outside_code else text
            count = sum(1 for _ in found_by(how.count, searched))
            return how.default if count == 0 and how.default is not None else count
