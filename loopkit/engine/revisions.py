"""Caps of counters where a run stands, and how many revisions are left."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from loopkit.engine.state import RunState
from loopkit.machine.edges import TOTAL, Edge
from loopkit.machine.graph import cap_value
from loopkit.machine.program import Program


def cap_of(program: Program, run: RunState, counter: str) -> int:
    """The cap of a counter in this run, whose total may have been raised."""
    if counter == TOTAL and isinstance(raised := run.limits.get("total_revisions"), int):
        return raised
    bound = program.graph.caps[counter]
    return bound if isinstance(bound, int) else cap_value(bound, run.input)


def after_edge(
    counters: Mapping[str, int], spends: Iterable[str], resets: Iterable[str]
) -> dict[str, int]:
    """The counters once an edge is taken: those that it resets, and one more of what it spends."""
    after = dict(counters)
    for counter in resets:
        after[counter] = 0
    for counter in spends:
        after[counter] = after.get(counter, 0) + 1
    return after


def revision_of(
    program: Program, run: RunState, edge: Edge, spent: Mapping[str, int]
) -> tuple[int, int]:
    """The number of the revision by which a revise edge led on, and the most that there can be.

    `spent` counts it already. The most is what all counters of the edge leave: a total that is
    nearly used up leaves fewer than the edge's own cap.
    """
    revision = spent.get(edge.counters[0], 0)
    left = min([cap_of(program, run, counter) - spent.get(counter, 0) for counter in edge.counters])
    return revision, revision + max(left, 0)


def most_of(program: Program, run: RunState, counter: str) -> int:
    """The most that a counter can come to: of an edge, what its other counters leave it."""
    edge = program.graph.by_id.get(counter)
    spent, used = run.counters.get(counter, 0), run.counters
    counters = edge.counters if edge else (counter,)
    return spent + max(0, min(cap_of(program, run, one) - used.get(one, 0) for one in counters))


def can_come_again(program: Program, run: RunState, state: str) -> bool:
    """Whether a revise edge with room may lead from a state, or from what follows, back to it."""
    ahead = program.graph.reachable(state, back=False)
    return any(
        state in program.graph.reachable(edge.target, back=False)
        for edge in program.graph.by_id.values()
        if edge.back and edge.source in ahead and has_room(program, run, edge)
    )


def find_full_counter(program: Program, run: RunState, edge: Edge, of: str = "") -> tuple[str, str]:
    """The counter that leaves an edge no room, and that in words; both empty where none does.

    `of` says of what the edge's own revisions are, or those of its budget.
    """
    used, caps = run.counters, {c: cap_of(program, run, c) for c in edge.counters}
    full = next((c for c in edge.counters if used.get(c, 0) >= caps[c]), "")
    if not full:
        return "", ""
    of = " of the run" if full == TOTAL else of
    if caps[full] == 0:
        return full, f"no revisions{of} are granted"
    if caps[full] == 1:
        return full, f"the one revision{of} is used up"
    return full, f"all {caps[full]} revisions{of} are used up"


def has_room(program: Program, run: RunState, edge: Edge) -> bool:
    """Whether none of an edge's counters is used up; one without counters has room always."""
    for counter in edge.counters:
        if run.counters.get(counter, 0) >= cap_of(program, run, counter):
            return False
    return True
