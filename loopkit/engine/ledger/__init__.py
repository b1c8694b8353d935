"""The findings ledger: new, recurring, resolved, regressed, and when revising has stalled.

Everything is computed from the rounds of one validate state: one entry for each attempt that it
judged, judging one attempt again replaces its entry.
"""

from __future__ import annotations

from collections.abc import Iterable

from loopkit.engine.events import Artifact
from loopkit.engine.findings import Answer, Report
from loopkit.engine.ledger.attribution import attribute, earliest
from loopkit.engine.ledger.combining import (
    MISSING,
    Panel,
    merge_findings,
    outvote,
    reason,
    settle,
    verdict_of,
    worst_class,
)
from loopkit.engine.ledger.progress import has_stalled
from loopkit.engine.ledger.statuses import no_longer_found, open_findings_of, with_status
from loopkit.engine.ledger.version import normalise, sources_of, version_of
from loopkit.engine.rounds import Earlier
from loopkit.engine.state import RunState
from loopkit.language.facts import UNANSWERED
from loopkit.machine.program import Program
from loopkit.values import NOTHING, replace


def complete(
    program: Program,
    run: RunState,
    name: str,
    artifact: Artifact,
    panel: Panel,
    earlier: Earlier,
    made_from: dict[str, int],
) -> Report:
    """The report of one round, with each finding's status and whether revising has stalled."""
    asked = program.plans[name].rules
    assert asked is not None
    version = version_of(program, run, artifact)
    if asked.is_by_majority:
        panel = outvote(panel, asked.levels)
    answers = panel.answers
    line = earlier.line
    before = line.open
    findings = with_status(merge_findings(answers, asked.levels), line, before)
    origins = program.graph.origins if program.graph.has_origins else None
    if origins is not None:
        findings = attribute(findings, origins, artifact.author)
    verdict = verdict_of(panel, findings, asked.quorum)
    report = Report(
        state=name,
        artifact=artifact.name,
        author=artifact.author,
        attempt=artifact.attempt,
        version=artifact.version,
        previous=artifact.previous,
        attempts=artifact.attempts,
        phase=artifact.phase,
        fallback=artifact.fallback_reason,
        verdict=verdict,
        made_from=made_from,
        answers=answers,
        findings=findings,
        score=_lowest_score(panel.judges) if panel.judges else None,
        work=version.digest,
    )
    if verdict in UNANSWERED:
        error_class = worst_class(panel.missing) if verdict == "incomplete" else None
        return replace(report, error_class=error_class, reason=reason(verdict, panel))
    if before:
        resolved, unseen = no_longer_found(findings, before, panel)
        report = replace(report, resolved=resolved, unseen=unseen)
    if verdict != "fail":
        return report
    if origins is not None:
        report = replace(report, origin=earliest(findings, origins))
    is_stall = bool(earlier) and has_stalled(earlier, report, version, asked.stall)
    return replace(report, stalled=True) if is_stall else report


def _lowest_score(answers: Iterable[Answer]) -> float | None:
    lowest: float | None = None
    for answer in answers:
        if answer.score is not None:
            lowest = answer.score if lowest is None else min(lowest, answer.score)
    return lowest


def attempts_behind(program: Program, run: RunState, artifact: Artifact) -> dict[str, int]:
    """By state, how often those had worked from whose artifacts one was made."""
    if not program.names_behind.get(artifact.author):
        return NOTHING
    return {part.author: part.attempt for part in sources_of(program, run, artifact)}


__all__ = [
    "MISSING",
    "Panel",
    "attempts_behind",
    "complete",
    "normalise",
    "open_findings_of",
    "settle",
]
