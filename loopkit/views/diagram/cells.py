"""Cells in layers: the parts of a layered drawing before they have coordinates.

Layers of boxes alternate with layers of labels, so that labels get space just like boxes. Arrows to
one target share a *trunk*, one cell in each layer on the way there: lines to the same target become
one line, and there are never more cells than targets times layers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import pairwise
from typing import Literal

Kind = Literal["box", "label", "trunk"]
Size = tuple[float, float]


@dataclass(slots=True, eq=False)
class Cell:
    """A box, a label, or the point where a line crosses a layer."""

    kind: Kind
    layer: int
    width: float
    height: float
    above: list[Cell] = field(default_factory=list)
    """Its neighbours in the layer above."""
    below: list[Cell] = field(default_factory=list)
    x: float = 0.0
    """The x coordinate of its middle."""
    place: float = 0.0
    """Its number in its layer."""
    is_back: bool = False
    """Whether only lines that lead back cross it."""
    trunk: list[Cell] = field(default_factory=list)
    """The cells of its trunk, including itself, which should be in a vertical line."""


@dataclass(frozen=True, slots=True)
class Line:
    """An arrow before it has coordinates."""

    source: str
    target: str
    label: Size
    is_back: bool = False


@dataclass(slots=True)
class Layers:
    """All cells of a drawing, and the route of each line through them."""

    rows: list[list[Cell]]
    """From top to bottom."""
    boxes: dict[str, Cell]
    ways: list[list[Cell]]
    """The cells of each line from its source to its target; empty for a box to itself."""


def layers_of(boxes: Mapping[str, Size], lines: Sequence[Line]) -> Layers:
    """The layers of boxes and lines: each line leads down, except for those that lead back."""
    depth = _depths(list(boxes), lines)
    cells = {name: Cell("box", 2 * depth[name], *size) for name, size in boxes.items()}
    rows: list[list[Cell]] = [[] for _ in range(max(cell.layer for cell in cells.values()) + 1)]
    for cell in cells.values():
        rows[cell.layer].append(cell)
    trunks: dict[tuple[str, bool], dict[int, Cell]] = {}
    ways = [_way(line, cells, rows, trunks) for line in lines]
    return Layers(rows, cells, ways)


def _way(
    line: Line,
    boxes: Mapping[str, Cell],
    rows: list[list[Cell]],
    trunks: dict[tuple[str, bool], dict[int, Cell]],
) -> list[Cell]:
    source, target = boxes[line.source], boxes[line.target]
    if source is target:
        return []
    step = 1 if source.layer < target.layer else -1
    label = Cell("label", source.layer + step, *line.label, is_back=line.is_back)
    rows[label.layer].append(label)
    way = [source, label]
    trunk = trunks.setdefault((line.target, step < 0), {})
    for layer in range(label.layer + step, target.layer, step):
        if layer not in trunk:
            cell = trunk[layer] = Cell("trunk", layer, 0.0, 0.0, is_back=True)
            cell.trunk = next(iter(trunk.values())).trunk
            cell.trunk.append(cell)
            rows[layer].append(cell)
        trunk[layer].is_back &= line.is_back
        way.append(trunk[layer])
    way.append(target)
    for one, next_one in pairwise(way):
        upper, lower = (one, next_one) if step > 0 else (next_one, one)
        if lower not in upper.below:
            upper.below.append(lower)
            lower.above.append(upper)
    return way


def _depths(names: Sequence[str], lines: Sequence[Line]) -> dict[str, int]:
    """The depth of each box: the length of the longest route to it, or nearer to those below."""
    place = {name: i for i, name in enumerate(_in_order(names, lines))}
    above: dict[str, set[str]] = {name: set() for name in names}
    below: dict[str, set[str]] = {name: set() for name in names}
    for line in lines:
        upper, lower = sorted((line.source, line.target), key=place.__getitem__)
        if upper != lower:
            above[lower].add(upper)
            below[upper].add(lower)
    depth: dict[str, int] = {}
    for name in place:
        depth[name] = max((depth[upper] + 1 for upper in above[name]), default=0)
    for name in reversed(place):
        if below[name] and len(below[name]) > len(above[name]):
            depth[name] = min(depth[lower] for lower in below[name]) - 1
    return depth


def _in_order(names: Sequence[str], lines: Sequence[Line]) -> Iterator[str]:
    """Each box after those from which lines lead forward to it, else in the given order.

    A cycle of such lines is cut at its first box.
    """
    after: dict[str, list[str]] = {name: [] for name in names}
    missing = dict.fromkeys(names, 0)
    for line in lines:
        if not line.is_back and line.source != line.target:
            after[line.source].append(line.target)
            missing[line.target] += 1
    number = {name: i for i, name in enumerate(names)}
    ready = [number[name] for name in names if not missing[name]]
    remaining = dict.fromkeys(names)
    while remaining:
        if not ready:
            heappush(ready, number[next(iter(remaining))])
        name = names[heappop(ready)]
        if name not in remaining:
            continue
        del remaining[name]
        yield name
        for target in after[name]:
            missing[target] -= 1
            if not missing[target]:
                heappush(ready, number[target])
