"""Names in order, with gaps: whether they fit, and a diff that lines them up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from loopkit.scenario import GAP

Sign = Literal[" ", "-", "+", "…", "gap"]
"""Both have it, only expected, only taken, taken in a gap, the gap itself."""
Move = tuple[int, Sign, int, int]
"""The cost, the sign, and the steps in both sequences."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a diff."""

    sign: Sign
    name: str
    index: int
    """The index of the expected item; for one that was only taken, of the next expected one."""


def align(expected: Sequence[str], taken: Sequence[str]) -> list[Row]:
    """Align both so that the fewest items differ, and then the most agree."""
    costs = _costs(expected, taken)
    rows: list[Row] = []
    i = j = 0
    while i < len(expected) or j < len(taken):
        moves = _moves(expected, taken, i, j)
        _, sign, down, along = min(moves, key=lambda m: m[0] + costs[i + m[2]][j + m[3]])
        rows.append(Row(sign, taken[j] if along else expected[i], i))
        i, j = i + down, j + along
    return [row for row in rows if row.sign != "gap"]


def fit(expected: Sequence[str], taken: Sequence[str]) -> bool:
    """Whether all expected items were taken, and no others outside of gaps."""
    if GAP not in expected:
        return tuple(expected) == tuple(taken)
    return _costs(expected, taken)[0][0] <= 0


def diff(rows: Sequence[Row]) -> tuple[str, ...]:
    """The rows as text; the items taken in a gap are on one line."""
    lines: list[str] = []
    between: list[str] = []
    for row in rows:
        if row.sign == "…":
            between.append(row.name)
            continue
        lines += _between(between)
        between = []
        lines.append(f"{row.sign} {row.name}")
    return (*lines, *_between(between))


def index_of_difference(rows: Sequence[Row], count: int) -> int:
    """The index of the expected item at which both differ first; at most the last one."""
    at = next((row.index for row in rows if row.sign in "-+"), 0)
    return max(0, min(at, count - 1))


def _between(names: Sequence[str]) -> list[str]:
    return [f"… {' '.join(names)}"] if names else []


def _costs(expected: Sequence[str], taken: Sequence[str]) -> list[list[int]]:
    """For each pair of remainders, the lowest cost; above 0 where some items differ."""
    costs = [[0] * (len(taken) + 1) for _ in range(len(expected) + 1)]
    for i in range(len(expected), -1, -1):
        for j in range(len(taken), -1, -1):
            moves = _moves(expected, taken, i, j)
            costs[i][j] = min((m[0] + costs[i + m[2]][j + m[3]] for m in moves), default=0)
    return costs


def _moves(expected: Sequence[str], taken: Sequence[str], i: int, j: int) -> Iterator[Move]:
    is_more, is_left = i < len(expected), j < len(taken)
    # One difference outweighs all items that could agree.
    different = len(taken) + 1
    if is_more and expected[i] == GAP:
        if is_left:
            yield 0, "…", 0, 1
        yield 0, "gap", 1, 0
        return
    if is_more and is_left and expected[i] == taken[j]:
        yield -1, " ", 1, 1
    if is_more:
        yield different, "-", 1, 0
    if is_left:
        yield different, "+", 0, 1
