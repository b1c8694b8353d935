"""Places for cells: an order in each layer with few crossings, then coordinates without overlaps.

Both are sweeps down and up over the layers; each compares a layer with its neighbour.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Callable, Iterator, Sequence
from math import inf

from loopkit.views.diagram.cells import Cell, Layers

SWEEPS = 8
GAP = 26.0
"""The gap between two neighbours, in pixels; half of it beside a line."""
WEIGHTS = {"box": 1.0, "label": 1.0, "trunk": 12.0}
"""The weight of the preferred position of each kind of cell: long lines become straight."""
WIDEST = 60
"""In layers with more cells, neighbours are not swapped to avoid crossings."""
Neighbours = Callable[[Cell], list[Cell]]


def place(layers: Layers) -> None:
    """Order the cells of each layer, and set the `x` of each."""
    _order(layers)
    for row in layers.rows:
        _push_apart(row, [cell.x for cell in row])
    for sweep in range(2 * SWEEPS):
        for row, neighbours in _passes(layers.rows, is_down=sweep % 2 == 0, both=sweep >= SWEEPS):
            _push_apart(row, [_mean([n.x for n in neighbours(cell)], cell.x) for cell in row])
    _straighten(layers)
    _mirror_back_to_the_right(layers)


def _passes(
    rows: Sequence[list[Cell]], *, is_down: bool, both: bool = False
) -> Iterator[tuple[list[Cell], Neighbours]]:
    def all_around(cell: Cell) -> list[Cell]:
        return cell.trunk or [*cell.above, *cell.below]

    for row in rows if is_down else reversed(rows):
        side: Neighbours = (lambda cell: cell.above) if is_down else (lambda cell: cell.below)
        yield row, all_around if both else side


def _mean(values: Sequence[float], default: float) -> float:
    return sum(values) / len(values) if values else default


# -- order ------------------------------------------------------------------------------------


def _order(layers: Layers) -> None:
    rows = layers.rows
    for row in rows:
        _number(row)
    best, fewest = [list(row) for row in rows], _crossings(rows)
    for sweep in range(SWEEPS):
        if not fewest:
            break
        for row, neighbours in _passes(rows, is_down=sweep % 2 == 0):
            wish = {c: _mean([n.place for n in neighbours(c)], c.place) for c in row}
            row.sort(key=wish.__getitem__)
            _number(row)
        for row in rows:
            if len(row) <= WIDEST:
                _swap(row)
        if (crossings := _crossings(rows)) < fewest:
            best, fewest = [list(row) for row in rows], crossings
    for row, order in zip(rows, best, strict=True):
        row[:] = order
        _number(row)


def _swap(row: list[Cell]) -> None:
    """Swap neighbours where this makes fewer lines cross."""
    for i in range(len(row) - 1):
        left, right = row[i], row[i + 1]
        if _crossings_between(left, right) > _crossings_between(right, left):
            row[i], row[i + 1] = right, left
    _number(row)


def _crossings_between(left: Cell, right: Cell) -> int:
    return sum(
        one.place > other.place
        for ones, others in ((left.above, right.above), (left.below, right.below))
        for one in ones
        for other in others
    )


def _number(row: Sequence[Cell]) -> None:
    for i, cell in enumerate(row):
        cell.place = i - (len(row) - 1) / 2


def _crossings(rows: Sequence[Sequence[Cell]]) -> int:
    """The number of crossings between neighbouring layers."""
    crossings = 0
    for row in rows:
        ends: list[float] = []
        for cell in row:
            mine = sorted(lower.place for lower in cell.below)
            crossings += sum(len(ends) - bisect_right(ends, end) for end in mine)
            for end in mine:
                insort(ends, end)
    return crossings


# -- coordinates ------------------------------------------------------------------------------


def _push_apart(row: Sequence[Cell], wishes: Sequence[float]) -> None:
    """Move each cell as near to its preferred position as the others allow, by least squares.

    Neighbours that would overlap are placed side by side around the mean of their preferred
    positions. Takes linear time.
    """
    groups: list[tuple[float, float, int]] = []
    """Groups of adjacent cells: their weight, the position of the first, and their number."""
    offsets = list(_offsets(row))
    for cell, wish, offset in zip(row, wishes, offsets, strict=True):
        weight, start, count = WEIGHTS[cell.kind], wish - offset, 1
        while groups and groups[-1][1] >= start:
            other, other_start, others = groups.pop()
            start = (start * weight + other_start * other) / (weight + other)
            weight, count = weight + other, count + others
        groups.append((weight, start, count))
    starts = [start for _, start, count in groups for _ in range(count)]
    for cell, start, offset in zip(row, starts, offsets, strict=True):
        cell.x = start + offset


def _offsets(row: Sequence[Cell]) -> Iterator[float]:
    """The least distance of each cell from the first cell of its layer."""
    offset, before = 0.0, None
    for cell in row:
        offset += _distance(before, cell) if before is not None else 0.0
        yield offset
        before = cell


def _distance(left: Cell, right: Cell) -> float:
    """The least distance between the middles of two neighbours."""
    thin = (left.width == 0) + (right.width == 0)
    return (left.width + right.width) / 2 + GAP * (1 - thin / 4)


def _straighten(layers: Layers) -> None:
    """Make each trunk a straight line if its neighbours leave enough space."""
    room: dict[Cell, tuple[float, float]] = {}
    for row in layers.rows:
        for before, cell, behind in zip([None, *row], row, [*row[1:], None], strict=False):
            if cell.trunk:
                least = before.x + _distance(before, cell) if before else -inf
                room[cell] = least, (behind.x - _distance(cell, behind) if behind else inf)
    for trunk in {id(cell.trunk): cell.trunk for cell in room}.values():
        least, most = max(room[c][0] for c in trunk), min(room[c][1] for c in trunk)
        if least <= most:
            straight = min(max(_mean([cell.x for cell in trunk], 0.0), least), most)
            for cell in trunk:
                cell.x = straight


def _mirror_back_to_the_right(layers: Layers) -> None:
    """Mirror the drawing if most lines that lead back are on its left."""
    cells = [cell for row in layers.rows for cell in row]
    middle = _mean([cell.x for cell in cells if cell.kind == "box"], 0.0)
    if sum(cell.x - middle for cell in cells if cell.is_back) < 0:
        for cell in cells:
            cell.x = -cell.x
        for row in layers.rows:
            row.reverse()
            _number(row)
