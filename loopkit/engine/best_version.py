"""Versions of artifacts: their numbers, why a run came to one, and going back to an earlier one.

Versions by authors, fallbacks and persons who edit are all counted. An attempt is the work of an
author, so neither a fallback nor an edit is one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from loopkit.engine.events import Worked
from loopkit.engine.findings import Finding
from loopkit.engine.payloads import Artifact, Best
from loopkit.engine.revisions import Facts
from loopkit.engine.rounds import Round, Rounds, attempt_at, best_of
from loopkit.engine.state import RunState
from loopkit.engine.template_values import defer_feedback
from loopkit.language.facts import STALLED, UNANSWERED, VERDICT
from loopkit.machine.edges import Edge
from loopkit.machine.program import Program, StatePlan
from loopkit.values import replace


def find_better_version(
    plan: StatePlan, edge: Edge, before: RunState, run: RunState, work: Worked
) -> Best | None:
    """The version from which the work goes on; None if no earlier one is better.

    `before` is the run without the work, and `run` with it.
    """
    now = before.artifacts if work.answer is not None else run.artifacts
    best = _best_round(plan, edge, run)
    if best is None or best.judged.fault or _is_current(now, best):
        return None
    then = run.artifacts_at(best)
    return Best(
        state=best.report.state,
        author=best.judged.author,
        attempt=best.judged.attempt,
        made_from=best.report.made_from,
        artifacts=tuple([n for n in then if run.artifacts.get(n) != then[n]]),
        withdrawn=tuple(_findings_to_withdraw(run, best)),
    )


def _best_round(plan: StatePlan, edge: Edge, run: RunState) -> Round | None:
    """The best round of the state with the last report, or the round that a person was shown.

    A version that a state once found valid was sent back for reasons that its own reports don't
    name. So if that state leads back itself, only the rounds since then count; and for an edge to
    an origin, only those that found something for it.
    """
    if plan.restores:
        shown = run.best_round()
        return shown if shown is not None and _leads_to_origin(run, edge, shown) else None
    report = run.last_report
    rounds = run.rounds_at.get(report.state) if report is not None else None
    if rounds is None:
        return None
    since = rounds.since_valid if plan.state.judges is not None else rounds
    return best_of(entry for entry in since if _leads_to_origin(run, edge, entry))


def _is_current(now: Mapping[str, Artifact], best: Round) -> bool:
    attempts = {(part.author, part.attempt) for part in now.values()}
    return now.get(best.judged.name) == best.judged and attempts.issuperset(best.attempt)


def _leads_to_origin(run: RunState, edge: Edge, entry: Round) -> bool:
    """Whether an edge leads to a round's origin, which a person may have set for the last one."""
    if edge.origin is None:
        return True
    report, last = entry.report, run.reports[entry.report.state]
    is_last = attempt_at(last.author, last.attempt, last.made_from) == entry.attempt
    return ((is_last and last.origin) or report.origin) == edge.origin


def go_back(run: RunState, event: Best) -> RunState:
    """The run, changed: a version is the current one again, with all that was known of it then.

    Attempts, counters and what guards read go on; so do the rounds that tell whether revising has
    stalled.
    """
    attempt = attempt_at(event.author, event.attempt, event.made_from)
    best = run.rounds_at[event.state].by_attempt[attempt]
    others = {n: artifact for n, artifact in run.artifacts.items() if n not in event.artifacts}
    defer_feedback(run, lambda _: True)
    restore(run, best.snapshot)
    run.artifacts = {**run.artifacts, **others}
    run.rounds_at = _rounds_at(run, best)
    run.returns = {**run.returns, len(run.rounds): best.number}
    run.reports = {**run.reports, **best.reports}
    run.last_report = best.report
    return run


def _rounds_at(run: RunState, best: Round) -> dict[str, Rounds]:
    """The rounds of each state; those that did not lead to this one are given up."""
    line, number = [], best.number
    while number >= 0:
        line.append(run.rounds[number])
        number = run.returns.get(number, number - 1)
    line.reverse()
    return {
        name: known.back_to(one for one in line if one.report.state == name)
        for name, known in run.rounds_at.items()
    }


def restore(run: RunState, then: Mapping[str, Artifact]) -> None:
    """Make earlier versions the current ones.

    Folders have to be restored before the next work, and a session that knows a later version ends.
    """
    for name, artifact in then.items():
        if (now := run.artifacts.get(name)) != artifact:
            authors = {artifact.author, now.author if now else artifact.author}
            conversations = run.conversations.items()
            run.conversations = {k: said for k, said in conversations if k[0] not in authors}
    run.artifacts = {**run.artifacts, **then}
    folders = {name: artifact for name, artifact in then.items() if artifact.tree}
    run.unrestored = {**run.unrestored, **folders}


def _findings_to_withdraw(run: RunState, best: Round) -> Iterator[Finding]:
    left = {found.id for rounds in _rounds_at(run, best).values() for found in rounds.open}
    for rounds in run.rounds_at.values():
        for finding in rounds.open:
            if finding.id not in left:
                left.add(finding.id)
                yield finding.replace(status="withdrawn")


REASONS = {
    "infeasible": "infeasible",
    "incomplete": "incomplete",
    "cap_reached": "exhausted",
    STALLED: "stalled",
}
"""Why a report that is not valid leads on, by the fact that guards read, worst first."""


def attempts_at(program: Program, run: RunState, artifact: str) -> int:
    """How often authors have begun to work on an artifact, including the current work."""
    names = program.graph.attempting.get(artifact, ())
    return sum(run.visits.get(name, 0) - run.times_kept.get(name, 0) for name in names)


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
    judges = program.plans[work.state].state.judges is not None
    if work.outcome != "done" or (judges and facts[VERDICT] == "fail"):
        return _reason_of_rejection(program, facts, edge, work)
    if judges:
        unanswered = facts[VERDICT] in UNANSWERED
        return str(facts[VERDICT]) if unanswered else ""
    if work.answer is not None:
        return work.answer.choice
    if work.artifact is not None and program.plans[work.state].state.asks:
        return "infeasible" if work.artifact.infeasible else ""
    return None


def _reason_of_rejection(program: Program, facts: Facts, edge: Edge, work: Worked) -> str:
    true = [fact for fact in REASONS if facts.get(fact) is True]
    if not true:
        return "rejected" if work.outcome == "done" else work.outcome
    # Of several reasons, the one that this edge's guard reads.
    read = program.guard_names.get(edge.id, frozenset())
    return REASONS[next((fact for fact in true if fact in read), true[0])]
