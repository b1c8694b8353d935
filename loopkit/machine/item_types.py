"""Items of `each`: their types and number, as far as known before a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from loopkit.language import EachState
from loopkit.language.datatypes import DataType, parse_record
from loopkit.language.guard import parse_path
from loopkit.language.guard.paths import ITEMS
from loopkit.language.states.children import ChildrenState
from loopkit.language.template import Anything, Fields, Items, Shape
from loopkit.language.template.shapes import member
from loopkit.machine.graph import Graph


def items_at(names: Mapping[str, Shape], state: EachState) -> Shape:
    """The shape of the items of a list; Anything where the path leads nowhere."""
    known: Shape = Fields(names)
    for step in state.item_steps:
        known = step_into(known, step) or Anything()
    return known


def step_into(shape: Shape, step: str) -> Shape | None:
    """The shape to which a step of a path leads; None where it leads nowhere."""
    if step != ITEMS:
        return member(shape, step)
    if isinstance(shape, Items):
        return shape.item
    return Anything() if isinstance(shape, Anything) else None


def item_counts(graph: Graph, state: EachState) -> tuple[int, int | None]:
    """The least and the most number of items of a list; the most is None where it is unknown."""
    ranges = [_counts_in(root, state.item_steps) for root in _roots(graph, state.each)] or [
        (0, None)
    ]
    most = None if any(high is None for _, high in ranges) else max(high or 0 for _, high in ranges)
    known = [bound for bound in (most, state.max_items) if bound is not None]
    return max(state.min_items, min(low for low, _ in ranges)), min(known, default=None)


def types_at(graph: Graph, state: ChildrenState, path: tuple[str, ...]) -> list[DataType | None]:
    """The type of a name in the state's input, one for each source that the value may have.

    None stands for a text. An empty list means that nothing is known.
    """
    first, *steps = path
    if isinstance(state, EachState) and first == state.as_:
        items = _item_types(graph, state)
        roots: list[DataType | None] = [known or DataType({}) for known in items]
    else:
        roots = [known and known.field(first) for known in _roots(graph, first)]
    if not steps:
        return roots
    found = [None if root is None else root.at(steps) for root in roots]
    return [] if None in found else found


def _item_types(graph: Graph, state: EachState) -> list[DataType | None]:
    found = list(_roots(graph, state.each))
    for step in state.item_steps:
        inner = (one and (one.items if step == ITEMS else one.field(step)) for one in found)
        found = list(inner)
    return found


def _roots(graph: Graph, path: str) -> Iterator[DataType | None]:
    """The types at the first step of a path, one for each state that may write it."""
    first, *_ = parse_path(path)
    if first == "input":
        yield DataType({}, fields={first: parse_record(graph.machine.input)})
        return
    for author in graph.artifacts.get(first, (first,) if first in graph.states else ()):
        data = graph.machine.data_type(author) or graph.states[author].leaves
        yield None if data is None else DataType({}, fields={first: data})


def _counts_in(known: DataType | None, steps: tuple[str, ...]) -> tuple[int, int | None]:
    """The least and the most number of items to which steps lead: the product over nested lists."""
    least: int = 1
    most: int | None = 1
    for step in steps:
        if step == ITEMS:
            said = known.schema if known is not None else {}
            least *= said.get("minItems", 0)
            most = most * said["maxItems"] if most is not None and "maxItems" in said else None
            known = known.items if known is not None else None
        else:
            known = known.field(step) if known is not None else None
    return least, most
