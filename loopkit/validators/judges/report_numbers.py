"""Numbers in a judge's report, which have to match what it lists."""

from __future__ import annotations

from collections.abc import Sequence

from loopkit.engine.findings import Finding
from loopkit.validators.fault import Fault, amount
from loopkit.validators.judges.findings import criteria_faults
from loopkit.validators.judges.form import Doubt, fold, quote
from loopkit.validators.judges.report_form import ReportForm
from loopkit.validators.judges.report_parts import MISSING, Report, excerpt, part


class Miscount(Doubt):
    """A number of the report does not match what it lists."""


def refuse_totals(report: Report, counted: Sequence[Sequence[Finding]], form: ReportForm) -> None:
    """Raise Miscount where `error_count` or `warning_count` matches none of these lists.

    A report may count what it lists, or all that is open.
    """
    counts = ((form.parts.error_count, True), (form.parts.warning_count, False))
    for path, rejects in counts:
        numbers = [sum(f.blocking == rejects for f in findings) for findings in counted]
        _refuse_mismatch(report, path, numbers, f"there are {numbers[-1]} of them")


def refuse_counts(report: Report, listed: Sequence[Fault], form: ReportForm) -> None:
    """Raise Miscount where a number is not that of the items with its word or severity."""
    words = {fold(word) for word in form.severities}
    for severity, path in form.parts.counts.items():
        is_word = fold(severity) in words
        found = [(one.word or one.severity) if is_word else one.severity for one in listed]
        number = sum(fold(one) == fold(severity) for one in found)
        there = f"{amount(number)} listed with the severity {quote(severity)}"
        _refuse_mismatch(report, path, [number], there)


def _refuse_mismatch(report: Report, path: str, numbers: Sequence[int], there: str) -> None:
    value = part(report, path)
    if value is not MISSING and (isinstance(value, bool) or value not in numbers):
        raise Miscount(f"{quote(path)} is {excerpt(value)}, but {there}.")


def unmet_criteria(report: Report, form: ReportForm) -> Sequence[Fault]:
    """A warning where fewer criteria are met than were checked; raises Miscount."""
    if form.parts.met is None or form.parts.checked is None:
        return ()
    met, checked = _number(report, form.parts.met), _number(report, form.parts.checked)
    if met > checked:
        paths = map(quote, (form.parts.met, form.parts.checked))
        raise Miscount(f"{' is more than '.join(paths)}: {met} is more than {checked}.")
    return criteria_faults(met, checked, form)


def _number(report: Report, path: str) -> int:
    value = part(report, path)
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    was = "and is missing" if value is MISSING else f"not {excerpt(value)}"
    raise Miscount(f"{quote(path)} must be a number of criteria, {was}.")
