"""Items of `each`: what is known of them before a run."""

from __future__ import annotations

from collections.abc import Mapping

from loopkit.language.guard import parse_path
from loopkit.language.guard.paths import ITEMS
from loopkit.language.template import Anything, Shape
from loopkit.language.template.shapes import Items, item_of, member


def shape_at(known: Shape | None, path: str) -> Shape | None:
    """The shape of what a path leads to; none where it leads nowhere."""
    for step in parse_path(path):
        if known is not None:
            known = item_of(known) if step == ITEMS else member(known, step)
    return known


def items_at(names: Mapping[str, Shape], each: str) -> Shape:
    """The shape of the items of the list at a path; nothing is known of what leads nowhere."""
    first, *_ = parse_path(each)
    rest = each.removeprefix(first).removeprefix(".")
    known = names.get(first)
    found = shape_at(known, rest) if rest else known
    return item_of(found) if isinstance(found, Items) else found or Anything()
