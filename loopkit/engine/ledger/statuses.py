"""Statuses of findings since the last round: new, recurring, regressed, resolved, unseen."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from loopkit.engine.findings import Answer, Finding, Status
from loopkit.engine.identity import OF_ARTIFACT
from loopkit.engine.ledger.combining import MISSING, Panel
from loopkit.engine.state import Round

OF_JUDGE = "judge"
"""The rule of all findings of judges."""


def with_status(findings: Iterable[Finding], earlier: Sequence[Round]) -> tuple[Finding, ...]:
    """The findings of a round, each with what the rounds before had of it."""
    findings = tuple(findings)
    now = frozenset(finding.id for finding in findings)
    known = frozenset[str]().union(*[now & entry.ids for entry in earlier])
    last = {finding.id for finding in _open(earlier)}

    def status(finding: Finding) -> Status:
        if finding.id in last:
            return "recurring"
        return "regressed" if finding.id in known else "new"

    return tuple(finding.replace(status=status(finding)) for finding in findings)


def open_of(validator: str, earlier: Sequence[Round]) -> tuple[Finding, ...]:
    """What judges of a validator have found and is open after these rounds."""
    return tuple(f for f in _open(earlier) if f.rule == OF_JUDGE and validator in f.named_by)


def gone(
    findings: Iterable[Finding], earlier: Sequence[Round], panel: Panel
) -> tuple[tuple[Finding, ...], tuple[Finding, ...]]:
    """What was open and this round does not have: (resolved, unseen).

    Unseen is what nobody looked for, because its rule or its judge was not asked or gave no
    verdict.
    """
    now = {finding.id for finding in findings}
    absent = [finding for finding in _open(earlier) if finding.id not in now]
    seen = [_is_looked_for(finding, panel) for finding in absent]
    resolved = (f for f, is_seen in zip(absent, seen, strict=True) if is_seen)
    unseen = (f for f, is_seen in zip(absent, seen, strict=True) if not is_seen)
    return tuple(f.replace(status="resolved") for f in resolved), tuple(unseen)


def _open(earlier: Sequence[Round]) -> tuple[Finding, ...]:
    """What the round before found, or had from others and did not look for."""
    if not earlier:
        return ()
    report = earlier[-1].report
    return (*report.findings, *report.unseen)


def _is_looked_for(finding: Finding, panel: Panel) -> bool:
    if finding.validator == OF_ARTIFACT:
        # Whatever comes as an artifact has been looked at for content faults.
        return True
    asked = panel.judges if finding.rule == OF_JUDGE else panel.fixed
    return all(_has_looked(validator, asked) for validator in finding.named_by)


def _has_looked(validator: str, asked: Sequence[Answer]) -> bool:
    verdicts = [answer.verdict for answer in asked if answer.validator == validator]
    is_missing = any(verdict in MISSING for verdict in verdicts)
    return not is_missing and any(verdict != "not_applicable" for verdict in verdicts)
