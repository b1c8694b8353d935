"""`each` and `machine` states: children for the items of a list, or one child."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from loopkit.drive.active import ActiveRun
from loopkit.drive.family import Family, Result
from loopkit.engine.events import Worked
from loopkit.engine.payloads import Artifact
from loopkit.engine.template_values import AllNames
from loopkit.language.input_faults import InvalidInput
from loopkit.language.states.each import BLOCKED, EachState, MachineState
from loopkit.machine.inputs import child_input, child_inputs
from loopkit.machine.item_list import Item, items_of


async def perform_each(active: ActiveRun, name: str, state: EachState) -> Worked:
    """Run the other machine for each item; items that can't be used are a content error."""

    def read() -> tuple[Sequence[Item], Inputs]:
        names = AllNames(active.program, active.state)
        items = items_of(state, names)
        return items, child_inputs(state, items, names)

    return await work_of_children(active, name, read, _counts)


def _counts(results: Mapping[str, Result]) -> tuple[Mapping[str, Any], object]:
    """The facts are counts of the results, which are the artifact by key."""
    succeeded = sum(result["success"] for result in results.values())
    facts = {
        "succeeded": succeeded,
        "failed": len(results) - succeeded,
        "total": len(results),
        "deadlocked": any(result["outcome"] == BLOCKED for result in results.values()),
    }
    return facts, results


Inputs = Mapping[str, dict[str, Any]]
"""The input of each child, by the key of its item."""
Sum = Callable[[Mapping[str, Result]], tuple[Mapping[str, Any], object]]
"""(results) -> facts, and the data of the artifact"""


async def work_of_children(
    active: ActiveRun, name: str, read: Callable[[], tuple[Sequence[Item], Inputs]], sum_up: Sum
) -> Worked:
    """The work of a state with the items that `read` gives; unusable ones are a content error."""
    visit = active.state.visit
    try:
        items, inputs = read()
    except InvalidInput as error:
        message = "; ".join(fault.message for fault in error.faults)
        return Worked(state=name, visit=visit, outcome="content", error=message)
    family = Family(active, name, items, inputs)
    facts, data = sum_up(await family.results())
    return Worked(
        state=name,
        visit=visit,
        outcome="done",
        facts=dict(facts),
        artifact=data_artifact(active, name, data),
        time_s=family.time_s,
    )


def data_artifact(active: ActiveRun, name: str, data: object) -> Artifact:
    """Data as the artifact of the state that made it."""
    return Artifact(
        name=name,
        author=name,
        attempt=active.state.attempts.get(name, 0) + 1,
        text=json.dumps(data, ensure_ascii=False),
        data=data,
        is_data=True,
    )


ONLY = Item(key="", value=None, location="")
"""The item of the only child."""


async def perform_machine(active: ActiveRun, name: str, state: MachineState) -> Worked:
    """Run the other machine; an input that does not fit it is a content error."""

    def read() -> tuple[Sequence[Item], Inputs]:
        return [ONLY], {ONLY.key: child_input(state, AllNames(active.program, active.state))}

    return await work_of_children(active, name, read, _outcome)


def _outcome(results: Mapping[str, Result]) -> tuple[Mapping[str, Any], object]:
    result = results[ONLY.key]
    return {"outcome": result["outcome"]}, result
