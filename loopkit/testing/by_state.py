"""Children by state, by the key of their item and by visit, as a scenario file has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from loopkit.language import ChildrenState, Machine
from loopkit.scenario import ANY, CHILDREN, PARTS

ChildName = tuple[str, str, int]
"""The name of a child: the state, the key of the item, the visit of the state."""


def by_state(machine: Machine, of_each: Mapping[ChildName, dict[str, Any]]) -> dict[str, Any]:
    """The values of all children, by state and, for children with keys, by key.

    If a state is entered several times, the value is a list with one for each visit.
    """
    by_name: dict[str, dict[str, dict[int, Any]]] = {}
    for (state, key, visit), known in of_each.items():
        by_name.setdefault(state, {}).setdefault(key, {})[visit] = known
    child_states = machine.states_of(ChildrenState)
    parts: dict[str, Any] = {}
    for state, by_key in by_name.items():
        visits = {key: _visits(by_visit) for key, by_visit in by_key.items()}
        is_keyed = child_states[state].has_keys
        parts[state] = _with_any_item(visits) if is_keyed else visits[""]
    return parts


def _visits(by_visit: Mapping[int, Any]) -> Any:
    listed = [by_visit.get(visit, {}) for visit in range(1, max(by_visit) + 1)]
    return listed[0] if len(listed) == 1 else listed


def _with_any_item(by_key: Mapping[str, Any]) -> dict[str, Any]:
    """The items; with one named like a part, also an empty `*`, so it is not read as that part."""
    is_misleading = not by_key.keys().isdisjoint({*PARTS, CHILDREN})
    return {**by_key, ANY: {}} if is_misleading else dict(by_key)
