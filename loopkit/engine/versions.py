"""Versions of artifacts: the number of each in its run, and why the run came to it.

Versions by authors, fallbacks and persons who edit are all counted. An attempt is the work of an
author, so neither a fallback nor an edit is one.
"""

from __future__ import annotations

from loopkit.engine.events import Artifact, Worked
from loopkit.engine.guard_facts import Facts
from loopkit.engine.state import RunState
from loopkit.language.facts import STALLED, UNANSWERED, VERDICT
from loopkit.machine.edges import Edge
from loopkit.machine.program import Program
from loopkit.values import replace

REASONS = {
    "infeasible": "infeasible",
    "incomplete": "incomplete",
    "cap_reached": "exhausted",
    STALLED: "stalled",
}
"""Why a report that is not valid leads on, by the fact that guards read, worst first."""


def attempts_at(program: Program, run: RunState, artifact: str) -> int:
    """How often authors have begun to work on an artifact, including the current work."""
    begun = 0
    for name in program.graph.attempting.get(artifact, ()):
        begun += run.visits.get(name, 0) - run.times_kept.get(name, 0)
    return begun


def with_version(program: Program, run: RunState, work: Worked, made: Artifact) -> Worked:
    """The completed work, whose artifact `made` gets its version numbers."""
    before = run.artifacts.get(made.name)
    artifact = replace(
        made,
        version=run.versions.get(made.name, 0) + 1,
        previous=before.version if before is not None else 0,
        attempts=attempts_at(program, run, made.name),
        phase=run.phase,
        fallback_reason=fallback_reason(run) if made.fallback else "",
    )
    return replace(work, artifact=artifact)


def fallback_reason(run: RunState) -> str:
    """Why a run is at a fallback: how its last loop ended, else the edge that led there."""
    return run.left_because or run.entered_by or "start"


def reason_for_leaving(program: Program, facts: Facts, edge: Edge, work: Worked) -> str | None:
    """Why an edge leads on from work that was not accepted; empty if it was.

    None if the edge says nothing about that.
    """
    if facts.get(VERDICT) == "fail" or work.outcome != "done":
        return _reason_of_rejection(program, facts, edge, work)
    if VERDICT in facts:
        unanswered = facts[VERDICT] in UNANSWERED
        return str(facts[VERDICT]) if unanswered else ""
    if work.answer is not None:
        return work.answer.choice
    if work.artifact is not None and program.plans[work.state].asks:
        return "infeasible" if work.artifact.infeasible else ""
    return None


def _reason_of_rejection(program: Program, facts: Facts, edge: Edge, work: Worked) -> str:
    true = [fact for fact in REASONS if facts.get(fact) is True]
    if not true:
        return "rejected" if work.outcome == "done" else work.outcome
    # Of several reasons, the one that this edge's guard reads.
    read = program.guard_names.get(edge.id, frozenset())
    return REASONS[next((fact for fact in true if fact in read), true[0])]
