"""Findings of a judge: the record of each fault that it names."""

from __future__ import annotations

from collections.abc import Sequence

from loopkit.engine.findings import Finding
from loopkit.engine.identity import Defect, finding_ids
from loopkit.validators.fault import Fault
from loopkit.validators.judges.form import AnswerForm

RULE = "judge"
"""The rule of all findings of a judge. The codes that it gives vary too much to identify any."""

MAX_LINE = 2**31


def findings_of(validator: str, faults: Sequence[Fault], form: AnswerForm) -> list[Finding]:
    defects = [Defect(RULE, fault.location, fault.steady, fault.key) for fault in faults]
    ids = finding_ids(validator, defects, shares_keys=form.shares_keys)
    return [
        Finding(
            id=identity,
            message=fault.message,
            severity=fault.severity,
            blocking=form.levels.is_severe(fault.severity),
            validator=validator,
            rule=RULE,
            code=fault.code,
            key=fault.key,
            location=fault.location,
            line=fault.line,
            identified=fault.identified,
        )
        for identity, fault in zip(ids, faults, strict=True)
    ]
