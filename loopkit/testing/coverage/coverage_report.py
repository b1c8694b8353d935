"""Coverage as a table for people, and as JSON for programs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction
from math import floor
from typing import Any

from loopkit.language.load import Loaded
from loopkit.machine.graph import Graph
from loopkit.scenario import GAP
from loopkit.testing.coverage.goals import (
    GoalKind,
    goal_line,
    goal_text,
    way_to_goal,
    ways_to_states,
)
from loopkit.testing.coverage.measured import Count, Coverage, MachineCoverage, Measured
from loopkit.text import columns, printable

KINDS: tuple[tuple[GoalKind, str], ...] = (
    ("state", "states"),
    ("transition", "transitions"),
    ("cap", "caps"),
)
SHOWN_STATES = 10
"""The most states that are named on the way to a goal."""
VERSION = 1
"""The version of the form of the data."""


def coverage_text(coverage: Coverage) -> str:
    """A table with one row for each machine, and a line for everything that is not covered.

    The line names the states on a shortest way there; whether a run can take it is not examined.
    """
    rows = [("machine", *(name for _, name in KINDS), "covered")]
    rows += [_row(machine.file, machine) for machine in coverage.machines]
    if len(coverage.machines) > 1:
        rows.append(("all", "", "", "", f"{percent(coverage.count.percent)} %"))
    missed = [text for machine in coverage.machines for text in _lines_of_missed(machine)]
    parts = ["\n".join(columns(rows, "<>>>>"))]
    if missed:
        parts.append("\n".join(["not covered:", *(f"  {text}" for text in missed)]))
    return printable("\n\n".join(parts))


def percent(exact: Fraction) -> str:
    """The number with one digit after the point, rounded down, so that 100 means all."""
    return f"{floor(exact * 10) / 10:g}"


def data(coverage: Coverage) -> dict[str, Any]:
    """The coverage as data for JSON, with every goal, its status and the cases that cover it."""
    return {
        "coverage": VERSION,
        **_count(coverage.count),
        "machines": [_machine(machine) for machine in coverage.machines],
    }


def _row(name: str, machine: MachineCoverage) -> tuple[str, ...]:
    counts = [machine.count(kind) for kind, _ in KINDS]
    parts = (f"{count.covered}/{count.total}" for count in counts)
    return (name, *parts, f"{percent(machine.count().percent)} %")


def _lines_of_missed(machine: MachineCoverage) -> Iterator[str]:
    graph = Graph(machine.loaded.machine)
    before = ways_to_states(graph, machine.never_taken)
    for goal in machine.missed:
        way = way_to_goal(graph, goal, before)
        if len(way) > SHOWN_STATES:
            way = [way[0], GAP, *way[2 - SHOWN_STATES :]]
        by = f", by {', '.join(way)}" if way else ""
        yield f"{machine.file}:{goal_line(machine.loaded, goal)}: {goal_text(graph, goal)}{by}"


def _machine(machine: MachineCoverage) -> dict[str, Any]:
    graph = Graph(machine.loaded.machine)
    counts = {name: _count(machine.count(kind)) for kind, name in KINDS}
    return {
        "machine": machine.loaded.machine.name,
        "file": machine.file,
        "is_exact": machine.is_exact,
        **_count(machine.count()),
        **counts,
        "goals": list(_goals(graph, machine.loaded, machine.measured)),
    }


def _goals(graph: Graph, loaded: Loaded, measured: Iterable[Measured]) -> Iterator[dict[str, Any]]:
    for one in measured:
        yield {
            "kind": one.goal.kind,
            "name": one.goal.name,
            "status": one.status,
            "cases": list(one.cases),
            "text": goal_text(graph, one.goal),
            "edges": list(one.goal.edges),
            "line": goal_line(loaded, one.goal),
        }


def _count(count: Count) -> dict[str, Any]:
    return {
        "covered": count.covered,
        "total": count.total,
        "percent": float(percent(count.percent)),
    }
