"""Occurrences of many words in one text, also with white space inside a word."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator

from loopkit.outside.redaction.forms import SHORTEST, without_white_space

GRAM = 4
"""Characters that are looked up at once."""
STEP = SHORTEST - GRAM + 1
"""The largest step between lookups that misses no word of the minimum length."""

_Span = tuple[int, int, str]


class Occurrences:
    """Finds words of at least 8 characters, none of which has white space."""

    def __init__(self, words: Iterable[str]) -> None:
        self._by_gram: dict[str, list[tuple[int, str]]] = {}
        for word in words:
            for at in range(STEP):
                self._by_gram.setdefault(word[at : at + GRAM], []).append((at, word))

    def within(self, text: str) -> list[_Span]:
        """(start, end, word) of each place, in order; of those that overlap the whole and the
        longest word."""
        joined = _join_overlaps(sorted(self._find(without_white_space(text))))
        return list(_restore_places(text, joined)) if joined else []

    def _find(self, text: str) -> Iterator[_Span]:
        # One look at every fifth place is enough, whatever the number of words.
        known = self._by_gram
        for at in range(0, len(text), STEP):
            for before, word in known.get(text[at : at + GRAM], ()):
                start = at - before
                if start >= 0 and text.startswith(word, start):
                    yield start, start + len(word), word


def _join_overlaps(spans: Iterable[_Span]) -> list[_Span]:
    joined: list[_Span] = []
    for start, end, word in spans:
        if joined and start < joined[-1][1]:
            first, last, longest = joined.pop()
            start, end, word = first, max(last, end), max(longest, word, key=len)
        joined.append((start, end, word))
    return joined


def _restore_places(text: str, spans: Iterable[_Span]) -> Iterator[_Span]:
    """Spans in the text without white space, converted to spans in the original text."""
    chunks = [match.span() for match in re.finditer(r"\S+", text)]
    starts, length = [], 0
    for first, last in chunks:
        starts.append(length)
        length += last - first

    def original_place(at: int) -> int:
        chunk = bisect_right(starts, at) - 1
        return chunks[chunk][0] + at - starts[chunk]

    for start, end, word in spans:
        yield original_place(start), original_place(end - 1) + 1, word
