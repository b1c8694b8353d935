"""What `machine` and `each` states have in common: the work that children do."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from loopkit.drive.active import ActiveRun
from loopkit.drive.child_results import Result
from loopkit.drive.family import Family
from loopkit.engine.events import Artifact, Worked
from loopkit.language.input_faults import InvalidInput
from loopkit.machine.item_list import Item

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
    artifact = Artifact(
        name=name,
        author=name,
        attempt=active.state.attempts.get(name, 0) + 1,
        text=json.dumps(data, ensure_ascii=False),
        data=data,
        is_data=True,
    )
    return Worked(
        state=name,
        visit=visit,
        outcome="done",
        facts=dict(facts),
        artifact=artifact,
        time_s=family.time_s,
    )
