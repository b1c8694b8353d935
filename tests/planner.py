"""Playing the planner of `machines/planner_autocorrect.yaml` with drafts that are made up."""

from __future__ import annotations

import json
import shutil
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
"""Two nodes and an edge, in which nothing is found."""


def gives(**outputs: Any) -> dict[str, Any]:
    """An executor's answer."""
    return {"data": {"outputs": outputs}}


WORK: Mapping[str, Any] = {
    "strategy": {"agents": {"executor": [gives(strategy="Say when.")]}},
    "*": {"agents": {"executor": [gives(post={"text": "In May.", "score": 5}, review="Good.")]}},
}
"""What the executor says of each node."""


def draft(number: int | None = None, /, edges: Any = None, **changes: Any) -> dict[str, Any]:
    """The valid plan with something changed in one of its nodes, or in its edges."""
    plan = deepcopy(PLAN)
    if number is not None:
        plan["nodes"][number] |= changes
    if edges is not None:
        plan["edges"] = [{"from": a, "to": b} for a, b in edges]
    return plan


def validated(plan: Any, *before: Any) -> list[dict[str, Any]]:
    """An attempt: drafts that the tool is asked about, the last of which is the answer."""
    drafts = [{"name": "validate_plan", "input": {"draft": one}} for one in (*before, plan)]
    return [*({"tool_calls": [one]} for one in drafts), {"data": plan}]


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


def without_tools(desk: Desk) -> str:
    """The same machine, its planners without a tool, so that only the gate finds anything."""
    folder = desk.folder / "planner_autocorrect"
    if not folder.exists():
        shutil.copytree(ROOT / "machines/planner_autocorrect", folder)
    lines = MACHINE.read_text(encoding="utf-8").splitlines(keepends=True)
    gone = ("    tools:", "    require_tool:", "    max_tool_calls:")
    text = "".join(line for line in lines if not line.startswith(gone))
    return text.replace(
        ", tools: {validate_plan: {by: [structure, frozen], emit: plan_rejected}}", ""
    )
