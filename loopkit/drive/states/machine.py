"""A `machine` state: one child, whose outcome guards may read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from loopkit.drive.active import ActiveRun
from loopkit.drive.child_results import Result
from loopkit.drive.states.children import Inputs, work_of_children
from loopkit.engine.events import Worked
from loopkit.engine.template_values import AllNames
from loopkit.language import MachineState
from loopkit.machine.inputs import child_input
from loopkit.machine.item_list import Item

ONLY = Item(key="", value=None, location="")
"""The item of the only child."""


async def perform(active: ActiveRun, name: str, state: MachineState) -> Worked:
    """Run the other machine; an input that does not fit it is a content error."""

    def read() -> tuple[Sequence[Item], Inputs]:
        return [ONLY], {ONLY.key: child_input(state, AllNames(active.program, active.state))}

    return await work_of_children(active, name, read, _sum)


def _sum(results: Mapping[str, Result]) -> tuple[Mapping[str, Any], object]:
    result = results[ONLY.key]
    return {"outcome": result["outcome"]}, result
