"""Inputs of children, as far as they are known from the input of the run that starts them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from loopkit.language import ChildrenState, EachState
from loopkit.language.datatypes import parse_record
from loopkit.language.guard import select
from loopkit.language.guard.paths import ITEMS
from loopkit.language.template import TemplateError, parse
from loopkit.machine.graph import Graph
from loopkit.machine.item_types import item_counts
from loopkit.machine.program import flat_facts

Given = Mapping[str, Any]
"""The input of a run, as far as it is known."""
OPEN = object()
"""Stands for an unknown value."""


def item_count_in(state: EachState, given: Mapping[str, object]) -> int | None:
    """The number of items in the given values, by dotted name; None where it is unknown."""
    first, _, inner = state.each.removesuffix(ITEMS).partition(ITEMS)
    if first not in given:
        return None
    return len(select(f"[]{inner}[]" if inner else ITEMS, given[first]))


def child_counts(graph: Graph, state: ChildrenState, given: Given) -> tuple[int, int]:
    """The least and the most number of runs that a state starts."""
    if not isinstance(state, EachState):
        return 1, 1
    known = item_count_in(state, flat_facts({"input": given}))
    if known is not None:
        return known, known
    least, most = item_counts(graph, state)
    return least, least if most is None else most


def definition_key(state: ChildrenState, given: Given) -> str:
    """A key that is equal for states that run equal machines with equal known inputs."""
    written = [state.child.identity, given]
    return json.dumps(written, sort_keys=True, default=str)


def partial_child_input(state: ChildrenState, given: Given) -> dict[str, Any]:
    """The known input of a child: fixed values, inputs passed on, and defaults."""
    known = {name: _value_or_open(value, given) for name, value in state.input.items()}
    for name, field in (parse_record(state.child.input).fields or {}).items():
        if name not in known and not field.required:
            known[name] = field.default
    return {name: value for name, value in known.items() if value is not OPEN}


def _value_or_open(value: object, given: Given) -> object:
    match value:
        case str():
            return _template_value(value, given)
        case Mapping():
            inner = {name: _value_or_open(one, given) for name, one in value.items()}
            return OPEN if any(one is OPEN for one in inner.values()) else inner
        case list() | tuple():
            items = [_value_or_open(one, given) for one in value]
            return OPEN if any(item is OPEN for item in items) else items
        case _:
            return value


def _template_value(text: str, given: Given) -> object:
    """The value of a template that is a plain text or the name of an input; else OPEN."""
    try:
        template = parse(text)
    except TemplateError:
        # The checks report it.
        return OPEN
    if template.constant is not None:
        return template.constant
    first, *steps = template.whole or ("",)
    if first != "input" or not steps:
        return OPEN
    found: object = given
    for step in steps:
        found = found.get(step, OPEN) if isinstance(found, Mapping) else OPEN
    return found
