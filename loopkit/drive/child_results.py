"""Results of children: the entry of each in the artifact of the state that began them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from loopkit.engine.events import Usage
from loopkit.engine.findings_for import plain_findings
from loopkit.engine.state import RunState
from loopkit.language.states.children import CANCELLED

Result = Mapping[str, Any]
"""In the shape of `RESULT` of the language."""
CHANGED_TOO = "the file has changed in the workspace as well"
"""Why it could not be merged."""


def result_of(child: RunState, spent: Usage) -> dict[str, Any]:
    """The entry of a child that is over; `spent` includes all its children."""
    finished, report = child.finished, child.last_report
    found = plain_findings(report.blocking) if report else []
    if finished is not None:
        found += [{"message": CHANGED_TOO, "location": path} for path in finished.conflicts]
    return {
        "outcome": finished.outcome if finished else CANCELLED,
        "success": finished is not None and finished.success,
        "result": finished.result if finished else {},
        "rounds": len(child.rounds),
        "calls": spent.agent_calls,
        "cost": spent.cost_usd,
        "findings": found,
        "duration": spent.time_s,
    }


def without_run(outcome: str, *reasons: str) -> dict[str, Any]:
    """The entry of an item that never began."""
    return {
        "outcome": outcome,
        "success": False,
        "result": {},
        "rounds": 0,
        "calls": 0,
        "cost": 0.0,
        "findings": [{"message": reason} for reason in reasons],
        "duration": 0.0,
    }
