"""The findings ledger: new, recurring, resolved, regressed, and when revising has stalled.

Everything is computed from the rounds of one validate state: one entry for each attempt that it
judged, judging one attempt again replaces its entry.
"""

from __future__ import annotations

from collections.abc import Mapping

from loopkit.engine.events import Artifact
from loopkit.engine.findings import Report
from loopkit.engine.ledger.combining import (
    MISSING,
    Panel,
    combined,
    merged,
    reason,
    settled,
    verdict_of,
    worst_class,
)
from loopkit.engine.ledger.progress import stalled
from loopkit.engine.ledger.rounds import best_round, earlier_rounds, rounds_of
from loopkit.engine.ledger.statuses import gone, open_of, with_status
from loopkit.engine.ledger.version import normalised, version_of
from loopkit.engine.state import Round, RunState
from loopkit.language import ValidateState
from loopkit.machine.program import Program


def complete(
    program: Program,
    run: RunState,
    name: str,
    state: ValidateState,
    artifact: Artifact,
    panel: Panel,
) -> Report:
    """The report of one round, with each finding's status and whether revising has stalled."""
    levels, stall = program.machine.levels, program.machine.limits.stall
    earlier, version = earlier_rounds(run, name, artifact), version_of(program, run, artifact)
    panel = combined(panel, state, levels)
    findings = with_status(merged(panel.answers, levels), earlier)
    verdict = verdict_of(panel, findings, state.quorum)
    is_complete = verdict not in ("incomplete", "infeasible")
    resolved, unseen = gone(findings, earlier, panel) if is_complete else ((), ())
    report = Report(
        state=name,
        artifact=artifact.name,
        author=artifact.author,
        attempt=artifact.attempt,
        verdict=verdict,
        answers=panel.answers,
        findings=findings,
        resolved=resolved,
        unseen=unseen,
        score=min((a.score for a in panel.answers if a.score is not None), default=None),
        error_class=worst_class(panel.missing) if verdict == "incomplete" else None,
        reason=reason(verdict, panel),
        work=version.digest,
    )
    now = Round(report, artifact, run.artifacts)
    is_stalled = verdict == "fail" and bool(earlier) and stalled(earlier, now, version, stall)
    return report.replace(stalled=is_stalled)


def facts_of(report: Report) -> Mapping[str, object]:
    """What a report tells the guards of its state."""
    return {
        "valid": report.valid,
        "verdict": report.verdict,
        "error_count": len(report.blocking),
        "warning_count": len(report.warnings),
        "codes": sorted({finding.code for finding in report.findings if finding.code}),
        "regressed": report.verdict == "fail" and bool(report.regressed),
        "stalled": report.stalled,
        "infeasible": report.verdict == "infeasible",
        "incomplete": report.verdict == "incomplete",
    }


__all__ = [
    "MISSING",
    "Panel",
    "best_round",
    "complete",
    "earlier_rounds",
    "facts_of",
    "normalised",
    "open_of",
    "rounds_of",
    "settled",
]
