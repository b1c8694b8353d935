"""Checks in a judge's report: a finding for each that is false, whatever the verdict says."""

from __future__ import annotations

from collections.abc import Iterator

from loopkit.validators.fault import Fault
from loopkit.validators.judges.form import quote
from loopkit.validators.judges.report_form import ReportForm
from loopkit.validators.judges.report_parts import Report, meaning, part

RESULTS = {"true": "true", "false": "false"}


def failed_checks(report: Report, form: ReportForm) -> Iterator[Fault]:
    """What each false check says; raises Doubt where one is neither true nor false."""
    for path, check in form.parts.checks.items():
        if meaning(part(report, path), RESULTS, quote(path)) == "true":
            continue
        yield Fault(
            check.message or f"The check `{path}` is false.",
            path,
            severity=check.severity or form.levels.ungraded,
            code=check.code,
            key=path,
            origins=check.origin,
        )
