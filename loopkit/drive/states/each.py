"""An `each` state: a child for each item of a list, whose outcomes are counted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from loopkit.drive.active import ActiveRun
from loopkit.drive.child_results import Result
from loopkit.drive.states.children import Inputs, work_of_children
from loopkit.engine.events import Worked
from loopkit.engine.template_values import AllNames
from loopkit.language import EachState
from loopkit.language.states.children import BLOCKED
from loopkit.machine.inputs import child_inputs
from loopkit.machine.item_list import Item, items_of


async def perform(active: ActiveRun, name: str, state: EachState) -> Worked:
    """Run the other machine for each item; items that can't be used are a content error."""

    def read() -> tuple[Sequence[Item], Inputs]:
        names = AllNames(active.program, active.state)
        items = items_of(state, names)
        return items, child_inputs(state, items, names)

    return await work_of_children(active, name, read, _sum)


def _sum(results: Mapping[str, Result]) -> tuple[Mapping[str, Any], object]:
    """The facts are counts of the results, which are the artifact by key."""
    succeeded = sum(result["success"] for result in results.values())
    facts = {
        "succeeded": succeeded,
        "failed": len(results) - succeeded,
        "total": len(results),
        "deadlocked": any(result["outcome"] == BLOCKED for result in results.values()),
    }
    return facts, results
