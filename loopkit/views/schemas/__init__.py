"""The published JSON Schemas, made from the definition classes for editors and other tools."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from loopkit.language import Machine
from loopkit.scenario import Scenario
from loopkit.views.schemas.events import event_schema
from loopkit.views.schemas.exact import with_exact_unions
from loopkit.views.schemas.generate import DRAFT_07, draft_07_of
from loopkit.views.schemas.records import records_of
from loopkit.views.stats.statistics import MachineStats, RunStats

STATS = (
    "The output of `loopkit stats --format json`. A share is null if its denominator is zero. "
    "Ignore keys that you do not know: later versions may add some, and remove none."
)


def machine_schema() -> dict[str, Any]:
    """The JSON Schema of machine files."""
    return {"$schema": DRAFT_07, **with_exact_unions(draft_07_of(Machine))}


def scenario_schema() -> dict[str, Any]:
    """The JSON Schema of scenario files."""
    return {"$schema": DRAFT_07, **with_exact_unions(draft_07_of(Scenario))}


def stats_schema() -> dict[str, Any]:
    """The JSON Schema of what `loopkit stats --format json` prints. Other keys are allowed."""
    listed = {
        name: {"type": "array", "items": {"$ref": f"#/definitions/{noun.__name__}"}}
        for name, noun in (("runs", RunStats), ("machines", MachineStats))
    }
    return {
        "$schema": DRAFT_07,
        "description": STATS,
        "type": "object",
        "properties": listed,
        "required": list(listed),
        "definitions": records_of((RunStats, MachineStats)),
    }


SCHEMAS: dict[str, Callable[[], dict[str, Any]]] = {
    "machine": machine_schema,
    "scenario": scenario_schema,
    "event": event_schema,
    "stats": stats_schema,
}

__all__ = ["DRAFT_07", "SCHEMAS"]
