"""`parse: report`: a report in JSON, in our form or by a `map`, as judges give it."""

from __future__ import annotations

from loopkit.validators.command.reader import (
    Reading,
    Unreadable,
    fault_at,
    message_text,
    refuse_too_many,
)
from loopkit.validators.fault import Fault
from loopkit.validators.judges.form import Misread
from loopkit.validators.judges.own_form import OwnForm
from loopkit.validators.judges.report import read_report
from loopkit.validators.judges.report_form import ReportForm


def read_program_report(text: str, reading: Reading) -> list[Fault]:
    """The findings of a report; the rules for a judge's report hold for it as well.

    A program can't be asked again: a `fail` without a finding counts in the report's own words,
    and anything else that is doubtful is refused.
    """
    form: ReportForm = OwnForm(
        levels=reading.levels, cap=reading.cap, origins=reading.origins, keeps_others=True
    )
    if reading.map is not None:
        form = ReportForm(
            levels=reading.levels, cap=reading.cap, parts=reading.map, origins=reading.origins
        )
    read = read_report(reading.validator, text, form)
    answer = read.last_resort if isinstance(read, Misread) else read
    if answer is None:
        assert isinstance(read, Misread)
        raise Unreadable(f"it cannot be used: {message_text(read.reason)}")
    return refuse_too_many(
        [
            fault_at(
                finding.message,
                message_text(finding.location),
                finding.line,
                severity=finding.severity,
                code=finding.code,
                key=finding.key,
                identified=finding.identified,
                origins=finding.origins,
                fields=finding.item,
            )
            for finding in answer.findings
        ]
    )
