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
"""What is not known."""


def given_items(state: EachState, given: Mapping[str, object]) -> int | None:
    """How many items there are in what is given, by dotted name; none where that is not known."""
    first, _, inner = state.each.removesuffix(ITEMS).partition(ITEMS)
    if first not in given:
        return None
    return len(select(f"[]{inner}[]" if inner else ITEMS, given[first]))


def child_counts(graph: Graph, state: ChildrenState, given: Given) -> tuple[int, int]:
    """How many runs a state starts at least and at most."""
    if not isinstance(state, EachState):
        return 1, 1
    known = given_items(state, flat_facts({"input": given}))
    if known is not None:
        return known, known
    least, most = item_counts(graph, state)
    return least, least if most is None else most


def definition_key(state: ChildrenState, given: Given) -> str:
    """The same for states that run equal machines with what is known of the input being equal."""
    written = [state.child.identity, given]
    return json.dumps(written, sort_keys=True, default=str)


def given_to_child(state: ChildrenState, given: Given) -> dict[str, Any]:
    """The input of a child: values without templates, what is handed on, and its defaults."""
    known = {name: _known(value, given) for name, value in state.input.items()}
    for name, field in (parse_record(state.child.input).fields or {}).items():
        if name not in known and not field.required:
            known[name] = field.default
    return {name: value for name, value in known.items() if value is not OPEN}


def _known(value: object, given: Given) -> object:
    match value:
        case str():
            return _handed_on(value, given)
        case Mapping():
            inner = {name: _known(one, given) for name, one in value.items()}
            return OPEN if any(one is OPEN for one in inner.values()) else inner
        case list() | tuple():
            items = [_known(one, given) for one in value]
            return OPEN if any(item is OPEN for item in items) else items
        case _:
            return value


def _handed_on(text: str, given: Given) -> object:
    """What a template comes to that is a text, or the name of an input."""
    try:
        template = parse(text)
    except TemplateError:
        # The checks tell of it.
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
