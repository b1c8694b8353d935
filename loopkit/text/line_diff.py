"""The lines in which two texts differ, in the unified form, and in time that grows with them."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import Match, SequenceMatcher

CONTEXT = 3
"""Unchanged lines around a change."""
_GAP = 40_000
"""Pairs of lines between two that correspond, up to which every one is compared."""
_NO_END = "\\ No newline at end of file"


def hunks(old: str, new: str) -> Iterator[str]:
    """The changes from one text to another, line by line as `diff -u` prints them, no heading."""
    before, after = _lines(old), _lines(new)
    matcher = _Anchored(before, after)
    for group in matcher.get_grouped_opcodes(CONTEXT):
        (_, start, _, from_, _), (_, _, end, _, to) = group[0], group[-1]
        yield f"@@ -{_range(start, end)} +{_range(from_, to)} @@"
        for kind, i, j, k, m in group:
            if kind == "equal":
                yield from _mark_lines(" ", before[i:j])
            else:
                yield from _mark_lines("-", before[i:j])
                yield from _mark_lines("+", after[k:m])


def equal_lines(before: Sequence[str], after: Sequence[str]) -> Sequence[Match]:
    """The blocks of lines that two texts have in common, in order."""
    return _Anchored(before, after).get_matching_blocks()


def _lines(text: str) -> list[str]:
    # Only at line feeds, as every tool that reads a diff counts lines.
    lines = text.split("\n")
    return [f"{line}\n" for line in lines[:-1]] + lines[-1:] * bool(lines[-1])


def _range(start: int, end: int) -> str:
    length = end - start
    if length == 1:
        return f"{start + 1}"
    return f"{start + 1 if length else start},{length}"


def _mark_lines(mark: str, lines: Sequence[str]) -> Iterator[str]:
    for line in lines:
        yield f"{mark}{line.removesuffix(chr(10))}"
        if not line.endswith("\n"):
            yield _NO_END


class _Anchored(SequenceMatcher[str]):
    """Match lines that both texts have once, in the same order; then the lines between them."""

    def __init__(self, before: Sequence[str], after: Sequence[str]) -> None:
        super().__init__(None, before, after, autojunk=False)
        self._before = before
        self._after = after

    def get_matching_blocks(self) -> list[Match]:
        before, after = self._before, self._after
        blocks: list[Match] = []
        i = j = 0
        for k, m in [*_anchors(before, after), (len(before), len(after))]:
            if k < i or m < j:
                # The lines before it that are equal have taken it in already.
                continue
            blocks += _between(before, after, (i, k), (j, m))
            i, j = k, m
            while i < len(before) and j < len(after) and before[i] == after[j]:
                i, j = i + 1, j + 1
            blocks.append(Match(k, m, i - k))
        return _join_neighbours(blocks, len(before), len(after))


def _anchors(before: Sequence[str], after: Sequence[str]) -> list[tuple[int, int]]:
    """Where the texts begin alike, and the longest row of lines that each has once."""
    once, once_too = _places(before), _places(after)
    pairs = [(place, once_too[line]) for line, place in once.items() if line in once_too]
    ends: list[int] = []
    lasts: list[int] = []
    back: list[int] = []
    for index, (_, place) in enumerate(pairs):
        at = bisect_left(ends, place)
        back.append(lasts[at - 1] if at else -1)
        ends[at : at + 1] = [place]
        lasts[at : at + 1] = [index]
    row: list[tuple[int, int]] = []
    index = lasts[-1] if lasts else -1
    while index >= 0:
        row.append(pairs[index])
        index = back[index]
    return [(0, 0), *reversed(row)]


def _places(lines: Sequence[str]) -> dict[str, int]:
    counts = Counter(lines)
    return {line: place for place, line in enumerate(lines) if counts[line] == 1}


def _between(
    before: Sequence[str], after: Sequence[str], old: tuple[int, int], new: tuple[int, int]
) -> Iterator[Match]:
    """The matches between two anchors: their common end, and the rest if it is short."""
    (i, k), (j, m) = old, new
    end = k
    while k > i and m > j and before[k - 1] == after[m - 1]:
        k, m = k - 1, m - 1
    if (k - i) * (m - j) <= _GAP:
        inner = SequenceMatcher(None, before[i:k], after[j:m], autojunk=False)
        yield from (Match(i + a, j + b, size) for a, b, size in inner.get_matching_blocks()[:-1])
    if end > k:
        yield Match(k, m, end - k)


def _join_neighbours(blocks: Sequence[Match], old: int, new: int) -> list[Match]:
    """The blocks without empty ones, neighbours as one, and the end that difflib expects."""
    joined: list[Match] = []
    for block in blocks:
        last = joined[-1] if joined else None
        if not block.size:
            continue
        if last and last.a + last.size == block.a and last.b + last.size == block.b:
            joined[-1] = Match(last.a, last.b, last.size + block.size)
        else:
            joined.append(block)
    return [*joined, Match(old, new, 0)]
