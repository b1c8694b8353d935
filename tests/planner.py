"""Playing the planner of `machines/planner_autocorrect.yaml` with drafts that are made up."""

from __future__ import annotations

import json
from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from ruamel.yaml import YAML

from tests.support import ROOT, Desk, Played

MACHINE = ROOT / "machines/planner_autocorrect.yaml"
CASES = YAML(typ="safe").load(MACHINE.with_suffix(".scenario.yaml"))
INPUT: dict[str, Any] = CASES["input"]
PLAN: dict[str, Any] = CASES["cases"]["a plan that is valid at once is carried out"]["agents"][
    "planner"
][0][1]["data"]
"""Two nodes, in which nothing is found."""


def gives(**outputs: Any) -> dict[str, Any]:
    """An executor's answer."""
    return {"data": {"outputs": outputs}}


WORK: Mapping[str, Any] = {
    "strategy": {"agents": {"executor": [gives(strategy="Say when.")]}},
    "*": {"agents": {"executor": [gives(post={"text": "In May.", "score": 5}, review="Good.")]}},
}
"""What the executor says of each node."""


def draft(number: int, /, **changes: Any) -> dict[str, Any]:
    """The valid plan with something changed in one of its nodes."""
    plan = deepcopy(PLAN)
    plan["nodes"][number] |= changes
    return plan


def validated(plan: Any, *before: Any) -> list[list[dict[str, Any]]]:
    """Attempts: drafts that the tool is asked about, the last of which is the answer."""
    drafts = [{"name": "validate_plan", "input": {"draft": one}} for one in (*before, plan)]
    attempts = [[{"tool_calls": [one]}] for one in drafts]
    attempts[-1].append({"data": plan})
    return attempts


def play(
    desk: Desk,
    machine: Any,
    *attempts: Any,
    again: Any = (),
    work: Any = WORK,
    answers: Any = None,
    **inputs: Any,
) -> Played:
    """A run in which the planner, and `again` the replanner, makes these attempts."""
    parts = {
        "scenario": 1,
        "agents": {"planner": [*attempts], "replanner": [*again]},
        "answers": answers or {},
        "children": {"work": work},
    }
    return desk.play(machine, json.dumps(parts), {**INPUT, **inputs})
