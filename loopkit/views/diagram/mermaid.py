"""A drawing as text in Mermaid's language for state diagrams.

Every name and label is escaped, so that no part of it can be a keyword of that language.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from loopkit.text import one_line
from loopkit.views.diagram.model import LIMIT, TIE, Arrow, Drawing, Mark, Node, wrap

NODE_WIDTH = 32
ARROW_WIDTH = 26
"""The columns at which a label is wrapped; renderers wrap wider lines themselves."""
TITLE_WIDTH = 100
NEW_LINE = "<br/>"
STYLES = {
    "agent": "fill:#dbeafe,stroke:#1d4ed8,color:#111827",
    "run": "fill:#e0f2f1,stroke:#00695c,color:#111827",
    **dict.fromkeys(("render", "data", "set"), "fill:#f3f4f6,stroke:#4b5563,color:#111827"),
    "machine": "fill:#f8fafc,stroke:#334155,color:#111827",
    "each": "fill:#f8fafc,stroke:#334155,stroke-width:2px,color:#111827",
    "validate": "fill:#ede9fe,stroke:#6d28d9,color:#111827",
    "human": "fill:#fef3c7,stroke:#b45309,color:#111827",
    "choice": "fill:#ffffff,stroke:#4b5563,color:#111827",
    "success": "fill:#dcfce7,stroke:#15803d,color:#111827",
    "failure": "fill:#fee2e2,stroke:#b91c1c,color:#111827",
    "limit": "fill:#ffffff,stroke:#b91c1c,stroke-dasharray:5 4,color:#111827",
    "visited": "stroke-width:3px",
    "here": "stroke-width:6px",
    "unvisited": "fill:#ffffff,color:#9ca3af,stroke:#d1d5db",
    "uncovered": "stroke:#dc2626,stroke-width:4px,stroke-dasharray:9 5",
    "impossible": "fill:#ffffff,color:#9ca3af,stroke:#d1d5db",
}
OF_MARKS: Mapping[Mark | None, str] = {"missed": "uncovered", "impossible": "impossible"}
"""The style of a state whose mark has one."""
# Not escaped: letters, digits, spaces and a few characters that have no meaning in Mermaid, nor in
# the Markdown that it reads labels as. Points and underscores only inside a word: `1.` starts a
# list, `_` emphasis. `www.` would be a link, and `direction` with a space and two letters turns the
# diagram, wherever in a line it is.
KEPT = re.compile(r"[^\W_]|[ ,=!·→×…]|(?<=[A-Za-z0-9])[._](?=[A-Za-z0-9])")
WORDS = re.compile(r"(?i)(?<=www)\.|(?<=direction) ")
Within = tuple[str, ...]
"""The states around a drawing, the outermost first."""


def mermaid(drawing: Drawing) -> str:
    """The diagram, ending with a line break; the same drawing always gives the same text."""
    covered = " with what its cases cover" if drawing.is_marked else ""
    head = f"%% {drawing.subject}{covered}, drawn by `loopkit diagram`.\nstateDiagram-v2\n"
    return head + "".join(f"    {line}\n" for line in _body(drawing))


def _body(drawing: Drawing) -> Iterator[str]:
    yield from _drawing_lines(drawing, ())
    nodes = list(_nodes(drawing, (), drawing.run is not None))
    for name, style in STYLES.items():
        if ids := [_id(node.name, at) for at, node, run in nodes if name in _classes(node, run)]:
            yield f"classDef {name} {style}"
            yield f"class {','.join(ids)} {name}"


def _drawing_lines(drawing: Drawing, within: Within) -> Iterator[str]:
    for node in drawing.nodes:
        yield from _node(node, within)
    for arrow in drawing.arrows:
        yield _arrow(arrow, within)


def _nodes(drawing: Drawing, within: Within, marked: bool) -> Iterator[tuple[Within, Node, bool]]:
    """All nodes, with the names of the states around them, and whether a run marks them."""
    for node in drawing.nodes:
        yield within, node, marked
        if node.inner is not None:
            yield from _nodes(node.inner, (*within, node.name), False)


def _node(node: Node, within: Within) -> Iterator[str]:
    name, texts = _id(node.name, within), node.all_texts
    if node.inner is not None:
        # A box with an inner machine has only a title of one line.
        title = f"{node.title}: {' · '.join(texts)}".replace(TIE, " ")
        yield f'state "{_escape(one_line(title, TITLE_WIDTH))}" as {name} {{'
        yield from (f"    {line}" for line in _drawing_lines(node.inner, (*within, node.name)))
        yield "}"
        return
    yield f'state "{label(node.title, NODE_WIDTH)}" as {name}'
    for text in texts:
        yield f"{name} : {label(text, NODE_WIDTH)}"


def _arrow(arrow: Arrow, within: Within) -> str:
    line = " --> ".join(_id(name, within) for name in (arrow.source, arrow.target))
    # Edges have no classes in state diagrams, so a taken edge is marked in its label.
    taken = [f"<b>taken {arrow.taken}×</b>"] if arrow.taken else []
    marked = [f"<b>{label(text, ARROW_WIDTH)}</b>" for text in arrow.marks]
    lines = [*(label(text, ARROW_WIDTH) for text in arrow.texts), *taken, *marked]
    return f"{line} : {NEW_LINE.join(lines)}" if lines else line


def _classes(node: Node, marked: bool) -> Iterator[str]:
    yield node.kind
    if marked and node.name != LIMIT:
        yield "here" if node.here else "visited" if node.visits else "unvisited"
    if node.mark in OF_MARKS:
        yield OF_MARKS[node.mark]


def _id(name: str | None, within: Within) -> str:
    if name is None:
        return "[*]"
    # The prefix separates states from Mermaid's keywords and JavaScript's object properties. State
    # names have no capital letters.
    inner = "limit" if name == LIMIT else f"s_{name}"
    return "_IN_".join((inner, *reversed(within)))


def label(text: str, width: int) -> str:
    """Text as lines of a label, in which characters with a meaning in Mermaid are code points."""
    return NEW_LINE.join(_escape(line) for line in wrap(text, width))


def _escape(line: str) -> str:
    kept = {match.start() for match in KEPT.finditer(line)}
    kept -= {match.start() for match in WORDS.finditer(line)}
    return "".join(c if i in kept else f"#{ord(c)};" for i, c in enumerate(line))
