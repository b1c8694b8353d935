"""Findings for a state: those of the last report that it has to mend, and those that waited."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from loopkit.engine.events import Deferral
from loopkit.engine.findings import Finding
from loopkit.engine.state import RunState
from loopkit.language.facts import COMPLETE
from loopkit.machine.program import Program
from loopkit.machine.report_items import ReportItems


def plain_finding(finding: Finding, items: ReportItems | None = None) -> dict[str, object]:
    """A finding as templates see it; with `items` if reports of other shapes are read."""
    plain: dict[str, object] = {
        "id": finding.id,
        "message": finding.message,
        "severity": finding.severity,
        "code": finding.code,
        "validator": finding.validator,
        "rule": finding.rule,
        "key": finding.key,
        "location": finding.location,
        "line": finding.line,
        "status": finding.status,
        "defaulted": finding.defaulted,
        "reviewers": [*finding.named_by],
        "origins": [*finding.origins],
    }
    if items is not None:
        plain["item"] = items.read(finding.item)
    return plain


def plain_findings(
    findings: Iterable[Finding], items: ReportItems | None = None
) -> list[dict[str, object]]:
    return [plain_finding(finding, items) for finding in findings]


def concerning(program: Program, findings: Iterable[Finding], state: str) -> tuple[Finding, ...]:
    """The findings that a state has to fix; all of them if they have no origins."""
    if not program.graph.has_origins or state not in program.graph.origins:
        return tuple(findings)
    return tuple(found for found in findings if state in found.origins)


def blocking_for(program: Program, run: RunState, state: str) -> tuple[Finding, ...]:
    """The open blocking findings for a state, including those that waited for it."""
    found = concerning(program, run.last_report.blocking, state) if run.last_report else ()
    if not (run.delivered or run.deferred):
        return found
    deferrals = (*run.delivered.get(state, ()), *run.deferred.get(state, ()))
    waited = waiting_findings(run, deferrals, (finding.id for finding in found))
    return (*found, *(finding for _, findings in waited for finding in findings))


def waiting_findings(
    run: RunState, deferrals: Sequence[Deferral], known_ids: Iterable[str] = ()
) -> Iterator[tuple[Deferral, tuple[Finding, ...]]]:
    """The open findings that wait for a state, each one once, in the newest deferral that has it.

    Findings in `known_ids` are left out: the state is told about them anyway.
    """
    seen = {*known_ids}
    waiting: list[tuple[Deferral, tuple[Finding, ...]]] = []
    for deferral in reversed(deferrals):
        wanted = {*deferral.findings} - seen
        known = _open_at(run, deferral.by)
        found = tuple(f for f in known if f.id in wanted and f.blocking and f.is_for(deferral.to))
        seen |= wanted
        if found:
            waiting.append((deferral, found))
    return reversed(waiting)


def _open_at(run: RunState, judge: str) -> Iterator[Finding]:
    """The open findings of a validate state, with the origins that a person gave them."""
    report = run.reports[judge]
    reclassified = (
        {found.id: found for found in report.findings} if report.verdict in COMPLETE else {}
    )
    return (reclassified.get(found.id, found) for found in run.rounds_at[judge].open)


def defer_feedback(run: RunState, is_past: Callable[[Deferral], bool]) -> None:
    """Defer the feedback that a state was sent and has not worked on, if `is_past` says so.

    Open findings are sent again when the state is entered. The state has to work in any case.
    """
    for to, feedback in run.pending.items():
        past = [each.tells for each in feedback if each.tells and is_past(each.tells)]
        if past:
            run.deferred = {**run.deferred, to: (*run.deferred.get(to, ()), *past)}
            run.pending = {**run.pending, to: tuple(f for f in feedback if f.tells not in past)}
