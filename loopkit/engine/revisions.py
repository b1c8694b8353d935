"""Revisions: the caps of a run's counters, and the facts that guards read in its active state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from loopkit.engine.events import Worked
from loopkit.engine.state import RunState
from loopkit.language.datatypes.datatype import facts_of
from loopkit.language.facts import CAME_FROM, VERDICT
from loopkit.language.guard.evaluate import truth
from loopkit.machine.edges import TOTAL, Edge, author_key, budget_key, limit_of
from loopkit.machine.graph import cap_value
from loopkit.machine.program import Program, flat_facts


def cap_of(program: Program, run: RunState, counter: str) -> int:
    """The cap of a counter in this run, whose limits may have been raised."""
    if isinstance(raised := run.limits.get(limit_of(counter)), int):
        return raised
    bound = program.graph.caps[counter]
    return bound if isinstance(bound, int) else cap_value(bound, run.input)


def after_edge(
    counters: Mapping[str, int], spends: Iterable[str], resets: Iterable[str]
) -> dict[str, int]:
    """The counters after an edge: those that it resets are 0, those that it spends one higher."""
    after = {**counters, **dict.fromkeys(resets, 0)}
    for counter in spends:
        after[counter] = after.get(counter, 0) + 1
    return after


def revision_of(
    program: Program, run: RunState, edge: Edge, spent: Mapping[str, int]
) -> tuple[int, int]:
    """The number of the revision that a revise edge began, which `spent` includes, and the maximum.

    The maximum is what all counters of the edge leave: a total that is nearly used up leaves fewer.
    """
    revision = spent.get(edge.counters[0], 0)
    return revision, revision + _left(program, run, edge.counters, spent)


def _left(
    program: Program, run: RunState, counters: Iterable[str], spent: Mapping[str, int]
) -> int:
    return max(0, min(cap_of(program, run, one) - spent.get(one, 0) for one in counters))


def most_of(program: Program, run: RunState, counter: str) -> int:
    """The highest value that a counter can reach; others that all its edges spend may lower it."""
    spending = [edge.counters for edge in program.graph.edges if counter in edge.counters]
    counters = {counter}.union(set(spending[0]).intersection(*spending) if spending else ())
    return run.counters.get(counter, 0) + _left(program, run, counters, run.counters)


def can_come_again(program: Program, run: RunState, state: str) -> bool:
    """Whether a revise edge with room may lead from a state, or from what follows, back to it."""
    ahead = program.graph.reachable(state, back=False)
    return any(
        state in program.graph.reachable(edge.target, back=False)
        for edge in program.graph.by_id.values()
        if edge.back and edge.source in ahead and has_room(program, run, edge)
    )


def full_counters(program: Program, run: RunState, edge: Edge) -> dict[str, int]:
    caps = {counter: cap_of(program, run, counter) for counter in edge.counters}
    return {counter: cap for counter, cap in caps.items() if run.counters.get(counter, 0) >= cap}


def why_full(full: Mapping[str, int], of: str = "") -> str:
    """Why an edge has no room; `of` is a phrase for what the edge's own revisions belong to."""
    counter, cap = next(iter(full.items()))
    of = " of the run" if counter == TOTAL else of
    if cap == 0:
        return f"no revisions{of} are granted"
    if cap == 1:
        return f"the one revision{of} is used up"
    return f"all {cap} revisions{of} are used up"


def has_room(program: Program, run: RunState, edge: Edge) -> bool:
    """Whether none of an edge's counters is used up; an edge without counters always has room."""
    return all(run.counters.get(c, 0) < cap_of(program, run, c) for c in edge.counters)


def used_up(program: Program, run: RunState) -> list[str]:
    """The counters that leave no way back from the state before, or from the last rejection.

    A budget and `total_revisions` have their names; any other counter that of the edge's target.
    """
    report, source = run.last_report, came_from(program, run)
    if source is None or not program.plans[source].revises:
        source = report.state if report else None
    if source is None or run.verdicts.get(source, "fail") != "fail":
        return []
    origin = earliest_origin(program, run, source)
    names = dict[str, None]()
    for edge in program.plans[source].revises:
        guard = program.graph.guards.get(edge.id)
        holds = guard is None or truth(guard.tree, run.facts.get(source, {}))
        if holds is False or edge.origin not in (None, origin):
            continue
        if holds is True and has_room(program, run, edge):
            return []
        for counter in full_counters(program, run, edge):
            is_own = counter in (edge.id, author_key(edge.target))
            own = edge.target if is_own else counter.removeprefix(budget_key(""))
            names["total_revisions" if counter == TOTAL else own] = None
    return list(names)


Facts = dict[str, object]


def guard_facts(program: Program, run: RunState, work: Worked | None) -> Facts:
    """All facts that the guards of the active state read, by dotted names."""
    plan = program.plans[run.state]
    facts = work.facts.copy() if work else {}
    if plan.elsewhere:
        facts = _facts_elsewhere(program, run, plan.elsewhere, facts) | facts
    # In a validate state, the attempt that it judges; else how often the state has worked.
    if (judged := plan.state.judges) is None:
        attempt = run.attempts.get(run.state, 0)
    else:
        artifact = run.artifacts.get(judged)
        attempt = artifact.attempt if artifact else 0
    # An answer that is only tried out counts as given, as it will when its edge is taken.
    facts["attempt"] = attempt + (work is None)
    if plan.asks_before:
        facts[CAME_FROM] = came_from(program, run)
    if plan.revises:
        is_routed = any(edge.origin for edge in plan.revises)
        origin = earliest_origin(program, run, run.state) if is_routed else None
        facts["cap_reached"] = not any(
            (origin is None or edge.origin in (None, origin)) and has_room(program, run, edge)
            for edge in plan.revises
        )
        if len(plan.revises) == 1:
            counters = plan.revises[0].counting
            facts["revisions"] = revisions = run.counters.get(counters[0], 0)
            facts["max_revisions"] = revisions + _left(program, run, counters, run.counters)
    return facts


def _facts_elsewhere(program: Program, run: RunState, read: frozenset[str], own: Facts) -> Facts:
    known = flat_facts({s: run.facts[s] for s in run.facts if s in read and s != run.state})
    if "reports" in read:
        reports = {name: {VERDICT: verdict} for name, verdict in run.verdicts.items()}
        known |= flat_facts(reports, "reports.")
    if "input" in read:
        known |= facts_of(run.input, program.input_type, "input.")
    if run.state in read:
        known |= {f"{run.state}.{name}": value for name, value in own.items()}
    return known


def came_from(program: Program, run: RunState) -> str | None:
    """The state before the active one; None for the first."""
    edge = program.graph.by_id.get(run.entered_by or "")
    return edge.source if edge else None


def earliest_origin(program: Program, run: RunState, state: str) -> str | None:
    """The earliest origin of a state's findings, or of the last findings before it."""
    judges = program.plans[state].state.judges is not None
    report = run.reports.get(state) if judges else run.last_report
    return report.origin if report else None
