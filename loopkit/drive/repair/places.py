"""Places in a machine file of what a run has taken and spent, and an edge in words."""

from __future__ import annotations

from typing import Any

from loopkit.document.document import DocPath
from loopkit.language import Machine
from loopkit.language.states.state import WorkingState
from loopkit.machine.edges import TOTAL, Edge
from loopkit.machine.graph import Graph


def edge_path(machine: Machine, edge: Edge) -> DocPath:
    """Where a state says its edges of the same kind as an edge that it had once."""
    state = machine.states[edge.source]
    if edge.event == "limit":
        return "limits", "then"
    if edge.event != "done":
        return "states", edge.source, "on_error"
    is_next = isinstance(state, WorkingState) and state.next is not None
    return "states", edge.source, "next" if is_next else "transitions"


def cap_path(machine: Machine, counter: str) -> DocPath:
    """Where the cap of a counter is written."""
    kind, _, name = counter.partition(":")
    if counter == TOTAL:
        return "limits", "total_revisions"
    if kind == "budget" and name:
        return "limits", "budgets", name
    path = Graph(machine).by_id[counter].path
    written: Any = machine
    for step in path:
        written = getattr(written, str(step), None) or written[step]
    return ("limits", "revisions") if written.max is None else (*path, "max")


def in_words(edge: Edge) -> str:
    """An edge as its author would name it: ``from `check`, `- {revise: draft}` ``."""
    guard = f"guard: {edge.guard}, " if edge.guard else ""
    way = "revise" if edge.back else "target"
    event = "" if edge.event == "done" else f" on `{edge.event}`"
    return f"`- {{{guard}{way}: {edge.target}}}` out of `{edge.source}`{event}"
