"""Linear programs: the prices of the bounds at which a sum is largest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from loopkit.values import Value

SMALL = 1e-9
NUDGE = 1e-7
"""Added to each bound, to each a little more, so that pivots never cycle."""
MOST_ENTRIES = 250_000
"""The most numbers of a table that is computed."""


class Column(Value, frozen=True):
    """One quantity, which is 0 or more."""

    gain: float
    uses: Mapping[int, float]
    """How much of each bound one unit takes."""


def prices(columns: Sequence[Column], bounds: Sequence[float]) -> list[float] | None:
    """The worth of one more unit of each bound at the largest gain.

    The bounds are 0 or more. None where there are too many numbers, or the gain has no end.
    """
    height, width = len(bounds), len(columns)
    if (height + 1) * (height + width) > MOST_ENTRIES:
        return None
    table = _table(columns, bounds)
    for _ in range(20 * (height + width)):
        last = table[height]
        column = min(range(width + height), key=last.__getitem__)
        if last[column] > -SMALL:
            return last[width : width + height]
        rows = [row for row in range(height) if table[row][column] > SMALL]
        if not rows:
            return None
        _pivot(table, min(rows, key=lambda row: table[row][-1] / table[row][column]), column)
    return None


def _table(columns: Sequence[Column], bounds: Sequence[float]) -> list[list[float]]:
    """A row for each bound with the rest of it, and one for the gain."""
    height, width = len(bounds), len(columns)
    table = [[0.0] * (width + height + 1) for _ in range(height + 1)]
    for at, column in enumerate(columns):
        table[height][at] = -column.gain
        for row, amount in column.uses.items():
            table[row][at] = amount
    for row, bound in enumerate(bounds):
        table[row][width + row] = 1.0
        table[row][-1] = bound + NUDGE * (row + 1)
    return table


def _pivot(table: list[list[float]], pivot: int, column: int) -> None:
    scale = table[pivot][column]
    table[pivot] = line = [value / scale for value in table[pivot]]
    for row, other in enumerate(table):
        factor = other[column]
        if row != pivot and factor:
            table[row] = [a - factor * b for a, b in zip(other, line, strict=True)]
