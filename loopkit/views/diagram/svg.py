"""A drawing as SVG: shapes with classes, and a style sheet.

It has no script and fetches nothing. Inside a page, the style sheet is that of the page.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from html import escape
from importlib.resources import files
from itertools import pairwise

from loopkit.text import printable
from loopkit.views.diagram.layout import (
    CODE,
    DOT,
    LABEL_PADDING,
    PADDING,
    TEXT,
    TITLE,
    Box,
    Label,
    Layout,
    Path,
    layout,
)
from loopkit.views.diagram.model import LIMIT, Arrow, Drawing
from loopkit.views.diagram.text_size import Style

NO_XML = re.compile("[\ufffe\uffff]")
ARROWHEAD = 7.0


def svg(drawing: Drawing) -> str:
    """A self-contained picture, light or dark like the reader's system."""
    return "\n".join(_picture(drawing, style_sheet())) + "\n"


def svg_in_page(drawing: Drawing) -> str:
    """A picture for a page that has the style sheet."""
    return "\n".join(_picture(drawing, ""))


def style_sheet() -> str:
    """The style of all diagrams, without `<` and `&`."""
    return files(__package__).joinpath("diagram.css").read_text(encoding="utf-8")


def _picture(drawing: Drawing, style: str) -> Iterator[str]:
    placed = layout(drawing)
    what = f"run {drawing.run} of machine" if drawing.run else "machine"
    size = f'viewBox="0 0 {_n(placed.width)} {_n(placed.height)}"'
    size += f' width="{_n(placed.width)}" height="{_n(placed.height)}"'
    title = _text(f"The {what} {drawing.machine}")
    marked = " of-run" if drawing.run else ""
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="diagram{marked}" {size} role="img" '
        f'aria-label="{title}">'
    )
    if style:
        yield f"<style>\n{style}</style>"
    yield from _parts(placed)
    yield "</svg>"


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
    x, y, radius = box.x, box.y, 8.0
    if node.kind in ("success", "failure"):
        radius = min(box.height / 2, 20.0)
    yield (
        f'<rect x="{_n(x)}" y="{_n(y)}" width="{_n(box.width)}" height="{_n(box.height)}" '
        f'rx="{_n(radius)}"/>'
    )
    middle = x + box.width / 2
    yield from _lines(box.title, TITLE, middle, y + PADDING - 2, "title")
    yield from _lines(box.lines, TEXT, middle, y + PADDING - 2 + TITLE.height(box.title), "text")
    if box.inner is not None:
        at = f"{_n(box.inner_at[0])} {_n(box.inner_at[1])}"
        yield f'<g class="inner" transform="translate({at})">'
        yield from _parts(box.inner)
        yield "</g>"
    yield "</g>"


def _label(arrow: Arrow, label: Label) -> Iterator[str]:
    yield f'<g class="label{_classes(arrow)}">'
    yield (
        f'<rect x="{_n(label.x)}" y="{_n(label.y)}" width="{_n(label.width)}" '
        f'height="{_n(label.height)}" rx="3"/>'
    )
    middle, top = label.x + label.width / 2, label.y + LABEL_PADDING / 2
    yield from _lines(label.lines, CODE, middle, top, "text")
    yield from _lines(label.strong, CODE, middle, top + CODE.height(label.lines), "strong")
    yield "</g>"


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
