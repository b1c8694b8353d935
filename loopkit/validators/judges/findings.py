"""Findings of a judge: the record of each fault that it names."""

from __future__ import annotations

from collections.abc import Sequence

from loopkit.engine.findings import Finding
from loopkit.engine.identity import OF_JUDGE, Defect, finding_ids
from loopkit.validators.answer import finding_of
from loopkit.validators.fault import Fault
from loopkit.validators.judges.form import AnswerForm

MAX_LINE = 2**31
OWN_WORDS_CHARS = 2_000
"""The most characters of a judge's own words that replace findings it does not name."""


def criteria_faults(met: int, checked: int, form: AnswerForm) -> list[Fault]:
    """A warning where fewer criteria are met than were checked."""
    if met == checked:
        return []
    message = f"{met} of {checked} criteria are met."
    return [Fault(message, "unmet criteria", severity=form.levels.advisory, value=met)]


def findings_of(
    validator: str, faults: Sequence[Fault], form: AnswerForm, rule: str = OF_JUDGE
) -> list[Finding]:
    defects = [Defect(rule, fault.location, fault.steady, fault.key) for fault in faults]
    ids = finding_ids(validator, defects, shares_keys=form.shares_keys)
    return [
        finding_of(
            validator,
            rule,
            one,
            fault,
            message=fault.message,
            level=fault.severity,
            code=fault.code,
            blocking=form.levels.is_severe(fault.severity),
            origins=fault.origins,
        )
        for one, fault in zip(ids, faults, strict=True)
    ]
