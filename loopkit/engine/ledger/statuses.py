"""Statuses of findings since the last round: new, recurring, regressed, resolved, unseen."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter

from loopkit.engine.findings import Answer, Finding, Status
from loopkit.engine.identity import OF_ARTIFACT, OF_CHECK, OF_JUDGE
from loopkit.engine.ledger.combining import MISSING, Panel
from loopkit.engine.rounds import Earlier
from loopkit.values import replace

_ID = attrgetter("id")


def with_status(
    findings: Sequence[Finding], earlier: Earlier, before: Iterable[Finding]
) -> tuple[Finding, ...]:
    """The findings of a round, each with its status by the rounds before.

    `before` are the findings that were open after those.
    """
    if not findings:
        return ()
    last = set(map(_ID, before))
    marked: list[Finding] = []
    for finding in findings:
        status: Status = "regressed" if earlier.has_found(finding.id) else "new"
        status = "recurring" if finding.id in last else status
        marked.append(finding if finding.status == status else replace(finding, status=status))
    return tuple(marked)


def open_findings_of(validator: str, earlier: Earlier) -> tuple[Finding, ...]:
    """The findings of a validator's judges that are open after these rounds."""
    return tuple(f for f in earlier.line.open if f.rule == OF_JUDGE and validator in f.named_by)


def no_longer_found(
    findings: Iterable[Finding], before: Iterable[Finding], panel: Panel
) -> tuple[tuple[Finding, ...], tuple[Finding, ...]]:
    """The findings that were open `before` and are not in this round: (resolved, unseen).

    Unseen are those whose rule or judge was not asked or gave no verdict.
    """
    now = set(map(_ID, findings))
    resolved: list[Finding] = []
    unseen: list[Finding] = []
    for finding in before:
        if finding.id in now:
            continue
        if _is_looked_for(finding, panel):
            resolved.append(replace(finding, status="resolved"))
        else:
            unseen.append(finding)
    return tuple(resolved), tuple(unseen)


def _is_looked_for(finding: Finding, panel: Panel) -> bool:
    if finding.validator == OF_ARTIFACT:
        # Every artifact has been checked for content faults.
        return True
    asked = panel.judges if finding.rule in (OF_JUDGE, OF_CHECK) else panel.fixed
    return all(_has_looked(validator, asked) for validator in finding.named_by)


def _has_looked(validator: str, asked: Iterable[Answer]) -> bool:
    has_verdict = False
    for answer in asked:
        if answer.validator == validator:
            if answer.verdict in MISSING:
                return False
            has_verdict = has_verdict or answer.verdict != "not_applicable"
    return has_verdict
