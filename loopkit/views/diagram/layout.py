"""A drawing with coordinates: boxes with their lines of text, labels, and the paths of arrows.

Arrows that lead back are reversed while layers are assigned, so that an author is above the state
that judges it. Coordinates are in pixels, from the upper left corner.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from loopkit.text import one_line
from loopkit.views.diagram.cells import Cell, Line, Size, layers_of
from loopkit.views.diagram.labels import wrap
from loopkit.views.diagram.marks import OF_STATES
from loopkit.views.diagram.model import Arrow, Drawing, Node
from loopkit.views.diagram.placing import place
from loopkit.views.diagram.text_size import Style

TITLE = Style(13, 18)
TEXT = Style(11, 15)
CODE = Style(10.5, 14, is_code=True)
PADDING = 12.0
LABEL_PADDING = 5.0
MARGIN = 10.0
DOT = 6.0
"""The radius of the start point."""
LOOP, LOOP_GAP = 26.0, 8.0
"""The width of an arrow from a box to itself, and the gap between two of them."""
BETWEEN_LAYERS, STEEPEST = 20.0, 9.0
"""The distance of two layers, and the slope of lines between them, which increases it."""
BETWEEN_PORTS = 30.0
COLUMNS, LABEL_COLUMNS = 32, 24
START = ""
"""The name of the start point, which no state can have."""


@dataclass(frozen=True, slots=True)
class Box:
    """A node with its coordinates."""

    node: Node
    x: float
    y: float
    width: float
    height: float
    title: tuple[str, ...]
    lines: tuple[str, ...]
    inner: Layout | None = None
    """The machine inside, whose upper left corner is `inner_at`."""
    inner_at: tuple[float, float] = (0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Label:
    """The texts of an arrow, with the box around them."""

    x: float
    y: float
    width: float
    height: float
    lines: tuple[str, ...]
    strong: tuple[str, ...]
    """The texts that a run or cases add, below the others."""


@dataclass(frozen=True, slots=True)
class Path:
    """An arrow with its coordinates."""

    arrow: Arrow
    points: tuple[tuple[float, float], ...]
    """Pairs of points: a straight line joins a pair, a curve joins it to the next."""
    label: Label | None
    has_head: bool = True
    """Whether it leads to its target itself, and not to another arrow that does."""
    is_loop: bool = False


@dataclass(frozen=True, slots=True)
class Layout:
    """A drawing with coordinates."""

    width: float
    height: float
    boxes: tuple[Box, ...]
    paths: tuple[Path, ...]
    start: tuple[float, float]
    """The middle of the start point."""


def layout(drawing: Drawing) -> Layout:
    """The coordinates of every node, and of every arrow except those to the end of all runs."""
    boxes = {node.name: _box(node) for node in drawing.nodes}
    arrows = [arrow for arrow in drawing.arrows if arrow.target is not None]
    labels = [_label(arrow) for arrow in arrows]
    sizes: dict[str, Size] = {START: (2 * DOT, 2 * DOT)}
    sizes |= {name: (box.width, box.height) for name, box in boxes.items()}
    aside = _make_room_for_loops(sizes, arrows, labels)
    lines = [
        Line(arrow.source or START, arrow.target or START, (at.width, at.height), arrow.is_back)
        for arrow, at in zip(arrows, labels, strict=True)
    ]
    layers = layers_of(sizes, lines)
    place(layers)
    return _Coordinates(layers.rows, layers.boxes, boxes).layout(arrows, labels, layers.ways, aside)


def _box(node: Node) -> Box:
    """A node with its size; its coordinates are set later."""
    title = tuple(wrap(one_line(node.title, 200), COLUMNS))
    visited = [f"visited {node.visits}×"] if node.visits else []
    here = [f"the run is {node.here} here"] if node.here else []
    marked = [OF_STATES[node.mark]] if node.mark in OF_STATES else []
    texts = (*node.texts, *visited, *here, *marked)
    lines = tuple(line for text in texts for line in wrap(text, COLUMNS))
    inner = layout(node.inner) if node.inner is not None else None
    widths = [*map(TITLE.width, title), *map(TEXT.width, lines)]
    height = TITLE.height(title) + TEXT.height(lines) + 2 * PADDING - 4
    inner_at = (PADDING / 2, height - PADDING / 2)
    if inner is not None:
        widths.append(inner.width - PADDING)
        height += inner.height
    width = max([*widths, 56.0]) + 2 * PADDING
    return Box(node, 0.0, 0.0, width, height, title, lines, inner, inner_at)


def _label(arrow: Arrow) -> Label:
    lines = tuple(line for text in arrow.texts for line in wrap(text, LABEL_COLUMNS))
    taken = [f"taken {arrow.taken}×"] if arrow.taken else []
    strong = tuple(line for t in (*taken, *arrow.marks) for line in wrap(t, LABEL_COLUMNS))
    if not lines and not strong:
        return Label(0, 0, 0, 0, (), ())
    all_lines = (*lines, *strong)
    width = max(map(CODE.width, all_lines)) + 2 * LABEL_PADDING
    return Label(0, 0, width, CODE.height(all_lines) + LABEL_PADDING, lines, strong)


def _make_room_for_loops(
    sizes: dict[str, Size], arrows: Sequence[Arrow], labels: Sequence[Label]
) -> dict[int, float]:
    """Widen cells on both sides by the space that their arrows to themselves need on the right.

    Returns how far the middle of each such arrow's label is below the middle of the box.
    """
    loops: dict[str, list[int]] = {}
    for i, arrow in enumerate(arrows):
        if arrow.source is not None and arrow.source == arrow.target:
            loops.setdefault(arrow.source, []).append(i)
    aside: dict[int, float] = {}
    for name, own in loops.items():
        heights = [labels[i].height + LOOP_GAP for i in own]
        top = -sum(heights) / 2
        for i, height in zip(own, heights, strict=True):
            aside[i] = top + height / 2
            top += height
        width, height = sizes[name]
        widest = max(labels[i].width for i in own)
        sizes[name] = width + 2 * (LOOP + widest), max(height, sum(heights))
    return aside


@dataclass(slots=True)
class _Coordinates:
    """The coordinates of cells whose x is known."""

    rows: list[list[Cell]]
    cells: dict[str, Cell]
    sizes: dict[str, Box]

    def layout(
        self,
        arrows: Sequence[Arrow],
        labels: Sequence[Label],
        ways: Sequence[Sequence[Cell]],
        aside: Mapping[int, float],
    ) -> Layout:
        left = min(cell.x - cell.width / 2 for row in self.rows for cell in row) - MARGIN
        for row in self.rows:
            for cell in row:
                cell.x -= left
        bands = list(self._bands())
        boxes = {name: self._place_box(box, bands) for name, box in self.sizes.items()}
        paths = [
            self._path(arrows[i], labels[i], ways[i], until, boxes, bands)
            if ways[i]
            else _loop(arrows[i], labels[i], boxes[arrows[i].source or START], aside[i])
            for i, until in self._once(arrows, ways)
        ]
        width = max(cell.x + cell.width / 2 for row in self.rows for cell in row) + MARGIN
        start = self.cells[START]
        return Layout(
            width=width,
            height=bands[-1][1] + MARGIN,
            boxes=tuple(boxes.values()),
            paths=tuple(paths),
            start=(start.x, _middle(bands[start.layer])),
        )

    def _once(
        self, arrows: Sequence[Arrow], ways: Sequence[Sequence[Cell]]
    ) -> Iterator[tuple[int, int]]:
        """The number of each arrow, and how many cells it crosses before it joins another arrow.

        Arrows that a run took come first, so that the shared part is drawn as taken.
        """
        drawn: set[tuple[Cell, Cell]] = set()
        for i in sorted(range(len(arrows)), key=lambda i: not arrows[i].taken):
            steps = list(pairwise(ways[i]))
            until = next((k for k, step in enumerate(steps) if step in drawn), len(steps))
            drawn.update(steps[:until])
            yield i, until + 1

    def _bands(self) -> Iterator[tuple[float, float]]:
        """The top and the bottom of each layer."""
        top = MARGIN
        for row in self.rows:
            aside = max((abs(c.x - n.x) for c in row for n in c.above), default=-1.0)
            top += BETWEEN_LAYERS * (aside >= 0) + max(aside, 0) / STEEPEST
            bottom = top + max(cell.height for cell in row)
            yield top, bottom
            top = bottom

    def _place_box(self, box: Box, bands: Sequence[tuple[float, float]]) -> Box:
        cell = self.cells[box.node.name]
        x, y = cell.x - box.width / 2, _middle(bands[cell.layer]) - box.height / 2
        aside = (box.width - box.inner.width) / 2 if box.inner else 0.0
        return replace(box, x=x, y=y, inner_at=(x + aside, y + box.inner_at[1]))

    def _path(
        self,
        arrow: Arrow,
        label: Label,
        way: Sequence[Cell],
        until: int,
        boxes: dict[str, Box],
        bands: Sequence[tuple[float, float]],
    ) -> Path:
        down = way[0].layer < way[-1].layer
        points: list[tuple[float, float]] = []
        for cell, x in zip(way[:until], _across(way), strict=False):
            top, bottom = bands[cell.layer]
            if cell.kind == "box":
                is_first = cell is way[0]
                box = boxes.get((arrow.source if is_first else arrow.target) or START)
                height = box.height if box else cell.height
                leaves_below = is_first == down
                edge = _middle((top, bottom)) + (height if leaves_below else -height) / 2
                pair = [(x, edge), (x, bottom if leaves_below else top)]
                points += pair if is_first else reversed(pair)
            else:
                points += [(x, top), (x, bottom)] if down else [(x, bottom), (x, top)]
        placed = None
        if label.width:
            at, band = way[1].x - label.width / 2, bands[way[1].layer]
            y = _middle(band) - label.height / 2
            placed = Label(at, y, label.width, label.height, label.lines, label.strong)
        return Path(arrow, tuple(points), placed, has_head=until == len(way))


def _middle(band: tuple[float, float]) -> float:
    return (band[0] + band[1]) / 2


def _across(way: Sequence[Cell]) -> Iterator[float]:
    """The x at which a line crosses each cell; the lines of a box are side by side."""
    for i, cell in enumerate(way):
        if cell.kind != "box":
            yield cell.x
            continue
        next_one = way[1] if i == 0 else way[-2]
        others = cell.below if next_one.layer > cell.layer else cell.above
        order = sorted(others, key=lambda other: other.x)
        between = min(BETWEEN_PORTS, (cell.width - 3 * PADDING) / max(len(order) - 1, 1))
        yield cell.x + (order.index(next_one) - (len(order) - 1) / 2) * max(between, 1.0)


def _loop(arrow: Arrow, label: Label, box: Box, aside: float) -> Path:
    x, middle = box.x + box.width, box.y + box.height / 2
    y, most = middle + aside, box.height / 2 - 9
    at = middle + min(max(aside, -most), most)
    points = ((x, at - 6), (x + LOOP, y - 9), (x + LOOP, y + 9), (x, at + 6))
    corner = (x + LOOP - 4, y - label.height / 2)
    placed = Label(*corner, label.width, label.height, label.lines, label.strong)
    return Path(arrow, points, placed if label.width else None, is_loop=True)
