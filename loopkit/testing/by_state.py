"""Children by state, by the key of their item and by visit, as a scenario file has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from loopkit.language import ChildrenState, Machine
from loopkit.scenario import ANY, CHILDREN, PARTS

ChildName = tuple[str, str, int]
"""Of one child: the state, the key of the item, the visit of the state."""


def by_state(machine: Machine, of_each: Mapping[ChildName, dict[str, Any]]) -> dict[str, Any]:
    """What is known of each child, under its state and, where it has one, its key.

    Where a state is entered several times, it is a list with one for each visit.
    """
    found: dict[str, dict[str, dict[int, Any]]] = {}
    for (state, key, visit), known in of_each.items():
        found.setdefault(state, {}).setdefault(key, {})[visit] = known
    running = machine.states_of(ChildrenState)
    made: dict[str, Any] = {}
    for state, by_key in found.items():
        visits = {key: _visits(by_visit) for key, by_visit in by_key.items()}
        is_keyed = running[state].has_keys
        made[state] = _keyed(visits) if is_keyed else visits[""]
    return made


def _visits(by_visit: Mapping[int, Any]) -> Any:
    listed = [by_visit.get(visit, {}) for visit in range(1, max(by_visit) + 1)]
    return listed[0] if len(listed) == 1 else listed


def _keyed(by_key: Mapping[str, Any]) -> dict[str, Any]:
    """An item that is called as a part has another beside it, so that it is not taken for one."""
    is_misleading = not by_key.keys().isdisjoint({*PARTS, CHILDREN})
    return {**by_key, ANY: {}} if is_misleading else dict(by_key)
