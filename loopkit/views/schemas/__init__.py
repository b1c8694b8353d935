"""The published JSON Schemas, made from the definition classes for editors and other tools."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from loopkit.language import Machine
from loopkit.scenario import Scenario
from loopkit.views.schemas.events import event_schema
from loopkit.views.schemas.exact import told_once
from loopkit.views.schemas.generate import DRAFT_07, draft_07_of


def machine_schema() -> dict[str, Any]:
    """The JSON Schema of machine files."""
    return {"$schema": DRAFT_07, **told_once(draft_07_of(Machine))}


def scenario_schema() -> dict[str, Any]:
    """The JSON Schema of scenario files."""
    return {"$schema": DRAFT_07, **told_once(draft_07_of(Scenario))}


SCHEMAS: dict[str, Callable[[], dict[str, Any]]] = {
    "machine": machine_schema,
    "scenario": scenario_schema,
    "event": event_schema,
}

__all__ = ["DRAFT_07", "SCHEMAS"]
