"""The facts that guards read in the active state of a run."""

from __future__ import annotations

from loopkit.engine.events import Worked
from loopkit.engine.revisions import cap_of, has_room
from loopkit.engine.state import RunState
from loopkit.language.datatypes import facts_of
from loopkit.language.facts import CAME_FROM, VERDICT
from loopkit.machine.program import Program, flat_facts

Facts = dict[str, object]


def guard_facts(program: Program, run: RunState, work: Worked | None) -> Facts:
    """All facts that the guards of the active state read, by dotted names."""
    plan = program.plans[run.state]
    facts = work.facts.copy() if work else {}
    if plan.elsewhere:
        facts = _facts_elsewhere(program, run, plan.elsewhere, facts) | facts
    # In a validate state, the attempt that it judges; else how often the state has worked.
    if plan.judged is None:
        attempt = run.attempts.get(run.state, 0)
    else:
        artifact = run.artifacts.get(plan.judged)
        attempt = artifact.attempt if artifact else 0
    # An answer that is only tried out counts as given, as it will when its edge is taken.
    facts["attempt"] = attempt + (work is None)
    if plan.asks_before:
        facts[CAME_FROM] = came_from(program, run)
    if plan.revises:
        origin = earliest_origin(program, run, run.state) if plan.is_routed else None
        facts["cap_reached"] = True
        for edge in plan.revises:
            if (origin is None or edge.origin in (None, origin)) and has_room(program, run, edge):
                facts["cap_reached"] = False
                break
        if len(plan.revises) == 1:
            counter = plan.revises[0].counters[0]
            facts["revisions"] = run.counters.get(counter, 0)
            facts["max_revisions"] = cap_of(program, run, counter)
    return facts


def _facts_elsewhere(program: Program, run: RunState, read: frozenset[str], own: Facts) -> Facts:
    """The facts of states, reports and inputs that guards of the active state read."""
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
    judges = program.plans[state].judged is not None
    report = run.reports.get(state) if judges else run.last_report
    return report.origin if report else None
