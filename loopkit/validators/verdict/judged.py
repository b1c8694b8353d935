"""A judge that answers in text: its verdict as an answer with findings."""

from __future__ import annotations

from collections.abc import Sequence

from loopkit.engine.findings import Answer, Finding
from loopkit.engine.identity import Defect, finding_ids
from loopkit.validators.answer import answer_with
from loopkit.validators.fault import Fault
from loopkit.validators.judgement import Misread
from loopkit.validators.report_findings import RULE
from loopkit.validators.verdict import Spoken, VerdictForm, read_verdict


def read_spoken(
    validator: str, messages: Sequence[str], form: VerdictForm, *, echoes: Sequence[str] = ()
) -> Answer | Misread:
    """The answer that a judge gives in its messages, as `read_verdict` reads them."""
    read = read_verdict(messages, form, echoes=echoes)
    if isinstance(read, Spoken):
        return _answer(validator, read.faults, form)
    if read.last_resort is None:
        return Misread(read.reason)
    return Misread(read.reason, _answer(validator, [read.last_resort], form))


def _answer(validator: str, faults: Sequence[Fault], form: VerdictForm) -> Answer:
    defects = [Defect(RULE, fault.location, fault.steady, fault.key) for fault in faults]
    ids = finding_ids(validator, defects, shares_keys=form.shares_keys)
    findings = [
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
    return answer_with(validator, findings)
