"""A drawing as SVG: shapes with classes, and a style sheet.

Fonts are not measured: the widths are those of the widest common fonts (DejaVu, Verdana).
Coordinates are in pixels, from the upper left.

First, cells are put in layers. Arrows that lead back are reversed meanwhile, so that an author is
above the state that judges it. Layers of boxes alternate with layers of labels. Arrows to one
target share a *trunk*, one cell in each layer on the way there: so there are never more cells than
targets times layers. Then cells get places: an order in each layer with few crossings, and
coordinates without overlaps. Both are sweeps down and up; each compares a layer with its neighbour.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right, insort
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from importlib.resources import files
from itertools import accumulate, pairwise, starmap

from loopkit.text import one_line, printable
from loopkit.views.diagram.model import LIMIT, Arrow, Drawing, Node, wrap

NO_XML = re.compile("[\ufffe\uffff]")
ARROWHEAD = 7.0


def svg(drawing: Drawing) -> str:
    """A self-contained picture, light or dark like the reader's system."""
    return f"{svg_in_page(drawing, style_sheet())}\n"


def svg_in_page(drawing: Drawing, style: str = "") -> str:
    """A picture for a page that has the style sheet, or a picture with one."""
    placed = layout(drawing)
    width, height = _n(placed.width), _n(placed.height)
    marked = " of-run" if drawing.run else ""
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="diagram{marked}" '
        f'viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" '
        f'aria-label="{_text(drawing.subject)}">'
    )
    styled = [f"<style>\n{style}</style>"] if style else []
    return "\n".join([head, *styled, *_parts(placed), "</svg>"])


def style_sheet() -> str:
    """The style of all diagrams, without `<` and `&`."""
    return files(__package__).joinpath("diagram.css").read_text(encoding="utf-8")


def _parts(placed: Layout) -> Iterator[str]:
    x, y = placed.start
    yield f'<circle class="start" cx="{_n(x)}" cy="{_n(y)}" r="{_n(DOT)}"/>'
    # Arrows that a run took are drawn above the others.
    for path in sorted(placed.paths, key=lambda path: path.arrow.taken > 0):
        yield from _line(path)
    for box in placed.boxes:
        yield from _box(box)
    for path in placed.paths:
        if path.label is not None:
            yield from _label(path.arrow, path.label)


def _box(box: Box) -> Iterator[str]:
    node = box.node
    run = "here" if node.here else "visited" if node.visits else "unvisited"
    classes = ["state", node.kind, *([node.mark] if node.mark else [])]
    classes += [run] if node.name != LIMIT else []
    yield f'<g class="{" ".join(classes)}" data-state="{_text(node.name)}">'
    yield _rect(box, min(box.height / 2, 20.0) if node.kind in ("success", "failure") else 8.0)
    middle, top = box.x + box.width / 2, box.y + PADDING - 2
    yield from _lines(box.title, TITLE, middle, top, "title")
    yield from _lines(box.lines, TEXT, middle, top + TITLE.height(box.title), "text")
    if box.inner is not None:
        at = f"{_n(box.inner_at[0])} {_n(box.inner_at[1])}"
        yield f'<g class="inner" transform="translate({at})">'
        yield from _parts(box.inner)
        yield "</g>"
    yield "</g>"


def _label(arrow: Arrow, label: Label) -> Iterator[str]:
    yield f'<g class="label{_classes(arrow)}">'
    yield _rect(label, 3)
    middle = label.x + label.width / 2
    top = label.y + LABEL_PADDING / 2
    yield from _lines(label.lines, CODE, middle, top, "text")
    yield from _lines(label.strong, CODE, middle, top + CODE.height(label.lines), "strong")
    yield "</g>"


def _rect(at: Box | Label, radius: float) -> str:
    size = f'width="{_n(at.width)}" height="{_n(at.height)}"'
    return f'<rect x="{_n(at.x)}" y="{_n(at.y)}" {size} rx="{_n(radius)}"/>'


def _lines(lines: Sequence[str], style: Style, x: float, top: float, name: str) -> Iterator[str]:
    for i, line in enumerate(lines):
        y = top + style.leading * i + style.leading * 0.74
        yield f'<text class="{name}" x="{_n(x)}" y="{_n(y)}">{_text(line)}</text>'


def _classes(arrow: Arrow) -> str:
    return (
        (" back" if arrow.is_back else "")
        + (" taken" if arrow.taken else " untaken")
        + (" missed" if arrow.marks else "")
    )


def _line(path: Path) -> Iterator[str]:
    arrow = path.arrow
    ids = " ".join(map(_text, arrow.edges))
    if path.is_loop:
        start, one, other, end = (f"{_n(x)} {_n(y)}" for x, y in path.points)
        d = f"M{start} C{one} {other} {end}"
    else:
        d = " ".join(_curve(path.points))
    yield f'<g class="edge{_classes(arrow)}" data-edges="{ids}">'
    yield f'<path d="{d}"/>'
    if path.has_head:
        head = " ".join(f"{_n(x)},{_n(y)}" for x, y in _head(path))
        yield f'<polygon points="{head}"/>'
    yield "</g>"


def _head(path: Path) -> list[tuple[float, float]]:
    x, y = path.points[-1]
    if path.is_loop:
        return [(x, y), (x + ARROWHEAD, y - 4), (x + ARROWHEAD, y + 4)]
    back = ARROWHEAD if path.points[0][1] > y else -ARROWHEAD
    return [(x, y), (x - 4, y + back), (x + 4, y + back)]


def _curve(points: Sequence[tuple[float, float]]) -> Iterator[str]:
    yield f"M{_n(points[0][0])} {_n(points[0][1])}"
    for i, ((x0, y0), (x, y)) in enumerate(pairwise(points)):
        if i % 2 == 0 or x == x0:
            # A straight line ends where the next curve begins.
            if i + 2 == len(points) or points[i + 2][0] != x:
                yield f"V{_n(y)}"
        else:
            middle = (y0 + y) / 2
            yield f"C{_n(x0)} {_n(middle)} {_n(x)} {_n(middle)} {_n(x)} {_n(y)}"


def _n(value: float) -> str:
    """A coordinate; tenths of a pixel are enough."""
    return f"{value:.1f}".removesuffix(".0")


def _text(text: str) -> str:
    return escape(NO_XML.sub("�", printable(text)))


NARROW = frozenset("iljtfrI.,:;'|!()[]{} ·-/\\\"`")
WIDE = frozenset("mwMW@%")
THIN, USUAL, BROAD = 0.52, 0.76, 1.12
"""The widths of bold letters, relative to the font size."""
MONOSPACED = 0.615
EAST_ASIAN, OTHER = 1.12, 0.95


@dataclass(frozen=True, slots=True)
class Style:
    size: float
    """The font size, in pixels."""
    leading: float
    """The distance from line to line."""
    is_code: bool = False
    """Whether the font is monospaced."""

    def width(self, line: str) -> float:
        return self.size * sum(map(self._char, line))

    def height(self, lines: Sequence[str]) -> float:
        return self.leading * len(lines)

    def _char(self, char: str) -> float:
        if char.isascii():
            if self.is_code:
                return MONOSPACED
            return THIN if char in NARROW else BROAD if char in WIDE else USUAL
        if unicodedata.combining(char):
            return 0.0
        return EAST_ASIAN if unicodedata.east_asian_width(char) in "WF" else OTHER


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
class Label:
    x: float
    y: float
    width: float
    height: float
    lines: tuple[str, ...]
    strong: tuple[str, ...]
    """The texts that a run or cases add, below the others."""


@dataclass(frozen=True, slots=True)
class Path:
    arrow: Arrow
    points: tuple[tuple[float, float], ...]
    """Pairs of points: a straight line joins a pair, a curve joins it to the next."""
    label: Label | None
    has_head: bool = True
    """Whether it leads to its target itself, and not to another arrow that does."""
    is_loop: bool = False


@dataclass(frozen=True, slots=True)
class Layout:
    width: float
    height: float
    boxes: tuple[Box, ...]
    paths: tuple[Path, ...]
    start: tuple[float, float]


@dataclass(frozen=True, slots=True)
class Box:
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


def layout(drawing: Drawing) -> Layout:
    """The coordinates of every node, and of every arrow except those to the end of all runs."""
    boxes = {node.name: _measured_box(node) for node in drawing.nodes}
    arrows = [arrow for arrow in drawing.arrows if arrow.target is not None]
    lines = [Connector(arrow, _measured_label(arrow)) for arrow in arrows]
    sizes: dict[str, Size] = {START: (2 * DOT, 2 * DOT)}
    sizes |= {name: (box.width, box.height) for name, box in boxes.items()}
    _make_room_for_loops(sizes, lines)
    rows, cells = layers_of(sizes, lines)
    place(rows)
    return _with_coordinates(rows, cells, boxes, lines)


@dataclass(slots=True, eq=False)
class Connector:
    arrow: Arrow
    label: Label
    way: list[Cell] = field(default_factory=list)
    """Its cells from its source to its target; none from a box to itself."""
    aside: float = 0.0
    """How far the middle of its label is below that of the box, if it leads to the same one."""

    @property
    def source(self) -> str:
        return self.arrow.source or START

    @property
    def target(self) -> str:
        return self.arrow.target or START


def _measured_box(node: Node) -> Box:
    title = tuple(wrap(one_line(node.title, 200), COLUMNS))
    lines = tuple(line for text in node.all_texts for line in wrap(text, COLUMNS))
    inner = layout(node.inner) if node.inner is not None else None
    widths = [*map(TITLE.width, title), *map(TEXT.width, lines)]
    height = TITLE.height(title) + TEXT.height(lines) + 2 * PADDING - 4
    inner_at = (PADDING / 2, height - PADDING / 2)
    if inner is not None:
        widths.append(inner.width - PADDING)
        height += inner.height
    width = max([*widths, 56.0]) + 2 * PADDING
    return Box(node, 0.0, 0.0, width, height, title, lines, inner, inner_at)


def _measured_label(arrow: Arrow) -> Label:
    lines = tuple(line for text in arrow.texts for line in wrap(text, LABEL_COLUMNS))
    taken = [f"taken {arrow.taken}×"] if arrow.taken else []
    strong = tuple(line for t in (*taken, *arrow.marks) for line in wrap(t, LABEL_COLUMNS))
    if not lines and not strong:
        return Label(0, 0, 0, 0, (), ())
    all_lines = (*lines, *strong)
    width = max(map(CODE.width, all_lines)) + 2 * LABEL_PADDING
    return Label(0, 0, width, CODE.height(all_lines) + LABEL_PADDING, lines, strong)


def _make_room_for_loops(sizes: dict[str, Size], lines: Sequence[Connector]) -> None:
    """Widen cells on both sides by the space that their arrows to themselves need on the right."""
    for name, (width, height) in [*sizes.items()]:
        if own := [line for line in lines if line.source == line.target == name]:
            needed = sum(line.label.height + LOOP_GAP for line in own)
            top = -needed / 2
            for line in own:
                line.aside = top + (line.label.height + LOOP_GAP) / 2
                top += line.label.height + LOOP_GAP
            widest = max(line.label.width for line in own)
            sizes[name] = width + 2 * (LOOP + widest), max(height, needed)


@dataclass(slots=True, eq=False)
class Cell:
    layer: int
    width: float = 0.0
    height: float = 0.0
    is_box: bool = False
    above: list[Cell] = field(default_factory=list)
    below: list[Cell] = field(default_factory=list)
    x: float = 0.0
    """Of its middle."""
    place: float = 0.0
    """Its number in its layer."""
    trunk: list[Cell] = field(default_factory=list)
    """The cells of its trunk, including itself, which should be in a vertical line."""


Band = tuple[float, float]
"""The top and the bottom of a layer."""


def _with_coordinates(
    rows: Rows, cells: Mapping[str, Cell], sizes: Mapping[str, Box], lines: Sequence[Connector]
) -> Layout:
    left = min(cell.x - cell.width / 2 for row in rows for cell in row) - MARGIN
    for row in rows:
        for cell in row:
            cell.x -= left
    bands = list(_bands(rows))
    boxes = {name: _place_box(box, cells[name], bands) for name, box in sizes.items()}
    paths = [
        _path(line, until, boxes, bands) if line.way else _loop(line, boxes[line.source])
        for line, until in _once(lines)
    ]
    start = cells[START]
    return Layout(
        width=max(cell.x + cell.width / 2 for row in rows for cell in row) + MARGIN,
        height=bands[-1][1] + MARGIN,
        boxes=tuple(boxes.values()),
        paths=tuple(paths),
        start=(start.x, _middle(bands[start.layer])),
    )


def _once(lines: Sequence[Connector]) -> Iterator[tuple[Connector, int]]:
    """Each line, and how many cells it crosses before it joins another one.

    Lines that a run took come first, so that the shared part is drawn as taken.
    """
    drawn: set[tuple[Cell, Cell]] = set()
    for line in sorted(lines, key=lambda line: not line.arrow.taken):
        steps = list(pairwise(line.way))
        until = next((k for k, step in enumerate(steps) if step in drawn), len(steps))
        drawn.update(steps[:until])
        yield line, until + 1


def _bands(rows: Sequence[Sequence[Cell]]) -> Iterator[Band]:
    top = MARGIN
    for row in rows:
        aside = max((abs(c.x - n.x) for c in row for n in c.above), default=-1.0)
        top += BETWEEN_LAYERS * (aside >= 0) + max(aside, 0) / STEEPEST
        bottom = top + max(cell.height for cell in row)
        yield top, bottom
        top = bottom


def _place_box(box: Box, cell: Cell, bands: Sequence[Band]) -> Box:
    x = cell.x - box.width / 2
    y = _middle(bands[cell.layer]) - box.height / 2
    aside = (box.width - box.inner.width) / 2 if box.inner else 0.0
    return replace(box, x=x, y=y, inner_at=(x + aside, y + box.inner_at[1]))


def _path(line: Connector, until: int, boxes: Mapping[str, Box], bands: Sequence[Band]) -> Path:
    way, label = line.way, line.label
    down = way[0].layer < way[-1].layer
    points: list[tuple[float, float]] = []
    for cell, x in zip(way[:until], _across(way), strict=False):
        top, bottom = bands[cell.layer]
        if cell.is_box:
            is_first = cell is way[0]
            box = boxes.get(line.source if is_first else line.target)
            height = box.height if box else cell.height
            leaves_below = is_first == down
            edge = _middle((top, bottom)) + (height if leaves_below else -height) / 2
            pair = [(x, edge), (x, bottom if leaves_below else top)]
            points += pair if is_first else reversed(pair)
        else:
            points += [(x, top), (x, bottom)] if down else [(x, bottom), (x, top)]
    placed = None
    if label.width:
        y = _middle(bands[way[1].layer]) - label.height / 2
        placed = replace(label, x=way[1].x - label.width / 2, y=y)
    return Path(line.arrow, tuple(points), placed, has_head=until == len(way))


def _middle(band: Band) -> float:
    return (band[0] + band[1]) / 2


def _across(way: Sequence[Cell]) -> Iterator[float]:
    """The x at which a line crosses each cell; the lines of a box are side by side."""
    for i, cell in enumerate(way):
        if not cell.is_box:
            yield cell.x
            continue
        next_one = way[1] if i == 0 else way[-2]
        others = cell.below if next_one.layer > cell.layer else cell.above
        order = sorted(others, key=lambda other: other.x)
        between = min(BETWEEN_PORTS, (cell.width - 3 * PADDING) / max(len(order) - 1, 1))
        yield cell.x + (order.index(next_one) - (len(order) - 1) / 2) * max(between, 1.0)


def _loop(line: Connector, box: Box) -> Path:
    x, middle, label = box.x + box.width, box.y + box.height / 2, line.label
    y, most = middle + line.aside, box.height / 2 - 9
    at = middle + min(max(line.aside, -most), most)
    points = ((x, at - 6), (x + LOOP, y - 9), (x + LOOP, y + 9), (x, at + 6))
    placed = replace(label, x=x + LOOP - 4, y=y - label.height / 2)
    return Path(line.arrow, points, placed if label.width else None, is_loop=True)


Size = tuple[float, float]
Rows = list[list[Cell]]
"""The cells of a drawing in layers, from top to bottom."""


def layers_of(
    boxes: Mapping[str, Size], lines: Sequence[Connector]
) -> tuple[Rows, dict[str, Cell]]:
    """The layers of boxes and lines, and the cell of each box; sets the way of each line.

    Each line leads down, except for those that lead back.
    """
    depth = _depths(list(boxes), lines)
    cells = {name: Cell(2 * depth[name], *size, is_box=True) for name, size in boxes.items()}
    rows: Rows = [[] for _ in range(max(cell.layer for cell in cells.values()) + 1)]
    for cell in cells.values():
        rows[cell.layer].append(cell)
    trunks: dict[tuple[str, bool], dict[int, Cell]] = {}
    for line in lines:
        if line.source != line.target:
            line.way = _way(line, cells, rows, trunks)
    return rows, cells


def _way(
    line: Connector,
    boxes: Mapping[str, Cell],
    rows: Rows,
    trunks: dict[tuple[str, bool], dict[int, Cell]],
) -> list[Cell]:
    source, target = boxes[line.source], boxes[line.target]
    step = 1 if source.layer < target.layer else -1
    first = Cell(source.layer + step, line.label.width, line.label.height)
    rows[first.layer].append(first)
    way = [source, first]
    trunk = trunks.setdefault((line.target, step < 0), {})
    for layer in range(first.layer + step, target.layer, step):
        if layer not in trunk:
            cell = trunk[layer] = Cell(layer)
            cell.trunk = next(iter(trunk.values())).trunk
            cell.trunk.append(cell)
            rows[layer].append(cell)
        way.append(trunk[layer])
    way.append(target)
    for one, next_one in pairwise(way):
        upper, lower = (one, next_one) if step > 0 else (next_one, one)
        if lower not in upper.below:
            upper.below.append(lower)
            lower.above.append(upper)
    return way


def _depths(names: Sequence[str], lines: Sequence[Connector]) -> dict[str, int]:
    """The depth of each box: the length of the longest route to it."""
    place = {name: i for i, name in enumerate(_in_order(names, lines))}
    above: dict[str, set[str]] = {name: set() for name in names}
    for line in lines:
        upper, lower = sorted((line.source, line.target), key=place.__getitem__)
        if upper != lower:
            above[lower].add(upper)
    depth: dict[str, int] = {}
    for name in place:
        depth[name] = max((depth[upper] + 1 for upper in above[name]), default=0)
    return depth


def _in_order(names: Sequence[str], lines: Sequence[Connector]) -> Iterator[str]:
    """Each box after those from which arrows lead forward to it, else in the given order.

    A cycle of such arrows is cut at its first box.
    """
    after: dict[str, list[str]] = {name: [] for name in names}
    missing = dict.fromkeys(names, 0)
    for line in lines:
        if not line.arrow.is_back and line.source != line.target:
            after[line.source].append(line.target)
            missing[line.target] += 1
    while missing:
        name = next((name for name, left in missing.items() if not left), next(iter(missing)))
        del missing[name]
        yield name
        for target in after[name]:
            if target in missing:
                missing[target] -= 1


SWEEPS = 8
GAP = 26.0
"""The gap between two neighbours, in pixels; half of it beside a line."""


def place(rows: Rows) -> None:
    """Order the cells of each layer, and set the `x` of each."""
    _order(rows)
    for row in rows:
        _push_apart(row, [cell.x for cell in row])
    for sweep in range(2 * SWEEPS):
        for row in rows if sweep % 2 == 0 else reversed(rows):
            around = [cell.trunk or [*cell.above, *cell.below] for cell in row]
            means = [_mean([n.x for n in cells], c.x) for c, cells in zip(row, around, strict=True)]
            _push_apart(row, means)


def _mean(values: Sequence[float], default: float) -> float:
    return sum(values) / len(values) if values else default


def _order(rows: Rows) -> None:
    for row in rows:
        _number(row)
    best, fewest = [list(row) for row in rows], _crossings(rows)
    for sweep in range(SWEEPS):
        if not fewest:
            break
        is_down = sweep % 2 == 0
        for row in rows if is_down else reversed(rows):
            sides = [(cell, cell.above if is_down else cell.below) for cell in row]
            wish = {cell: _mean([n.place for n in side], cell.place) for cell, side in sides}
            row.sort(key=wish.__getitem__)
            _number(row)
        if (crossings := _crossings(rows)) < fewest:
            best, fewest = [list(row) for row in rows], crossings
    for row, order in zip(rows, best, strict=True):
        row[:] = order
        _number(row)


def _number(row: Sequence[Cell]) -> None:
    for i, cell in enumerate(row):
        cell.place = i - (len(row) - 1) / 2


def _crossings(rows: Sequence[Sequence[Cell]]) -> int:
    crossings = 0
    for row in rows:
        ends: list[float] = []
        for cell in row:
            mine = sorted(lower.place for lower in cell.below)
            crossings += sum(len(ends) - bisect_right(ends, end) for end in mine)
            for end in mine:
                insort(ends, end)
    return crossings


def _push_apart(row: Sequence[Cell], wishes: Sequence[float]) -> None:
    """Move each cell as near to its preferred position as the others allow, by least squares.

    Neighbours that would overlap are placed side by side around the mean of their preferred
    positions. Takes linear time.
    """
    groups: list[tuple[float, int]] = []
    """Groups of adjacent cells: the position of the first, and their number."""
    offsets = list(accumulate(starmap(_distance, pairwise(row)), initial=0.0))
    for wish, offset in zip(wishes, offsets, strict=True):
        start, count = wish - offset, 1
        while groups and groups[-1][0] >= start:
            other_start, others = groups.pop()
            start = (start * count + other_start * others) / (count + others)
            count += others
        groups.append((start, count))
    starts = [start for start, count in groups for _ in range(count)]
    for cell, start, offset in zip(row, starts, offsets, strict=True):
        cell.x = start + offset


def _distance(left: Cell, right: Cell) -> float:
    """The least distance between the middles of two neighbours."""
    thin = (left.width == 0) + (right.width == 0)
    return (left.width + right.width) / 2 + GAP * (1 - thin / 4)
