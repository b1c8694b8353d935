"""Expected findings of reports."""

from __future__ import annotations

from collections.abc import Iterator

from loopkit.engine.findings import Finding
from loopkit.scenario import Expect, ExpectedFinding
from loopkit.testing.expectations.matching import is_expected, matching_reports
from loopkit.testing.expectations.miss import Miss
from loopkit.testing.trace import Judged, Trace
from loopkit.text import one_line, plural
from loopkit.views.history import origins_of


def findings(run: Trace, expect: Expect) -> Iterator[Miss]:
    """Each kind of finding that is expected, as often as it is expected."""
    for index, expected in enumerate(expect.findings or ()):
        reports = matching_reports(run, expected)
        found = [f for judged in reports for f in judged.report.findings if _fits(f, expected)]
        is_right = bool(found) if expected.count is None else len(found) == expected.count
        if not reports:
            yield Miss(("findings", index), _no_report_message(run, expected))
        elif not is_right:
            lines = tuple(line for judged in reports for line in _report_lines(judged))
            yield Miss(("findings", index), _mismatch_message(expected, len(found)), lines)


def _fits(finding: Finding, expected: ExpectedFinding) -> bool:
    return (
        is_expected(finding, expected) and (expected.message or "").rstrip("\n") in finding.message
    )


def _no_report_message(run: Trace, expected: ExpectedFinding) -> str:
    where = f"`{expected.state}`" if expected.state else "the run"
    known = [j for j in run.judged if expected.state in (None, j.state)]
    if not known:
        return f"{where} gave no report"
    judged = ", ".join(str(attempt) for attempt in dict.fromkeys(j.attempt for j in known))
    return f"{where} judged no attempt {expected.attempt}; it judged {judged}"


def _mismatch_message(expected: ExpectedFinding, count: int) -> str:
    keys = ("code", "validator", "severity", "status", "origin")
    parts = [f"{key} `{value}`" for key in keys if (value := getattr(expected, key)) is not None]
    if expected.defaulted is not None:
        parts += ["an assumed origin" if expected.defaulted else "an origin that is named"]
    parts += [f"{one_line(expected.message)!r}"] if expected.message is not None else []
    kind = f" with {' and '.join(parts)}" if parts else ""
    if expected.count is None:
        return f"expected a finding{kind}, and there is none"
    return f"expected {plural(expected.count, 'finding')}{kind}, and there are {count}"


def _report_lines(judged: Judged) -> Iterator[str]:
    report = judged.report
    yield f"{judged.state}, attempt {judged.attempt}: {report.verdict}"
    for finding in report.findings:
        code = f" [{finding.code}]" if finding.code else ""
        message = one_line(finding.message, 160)
        yield f"- {finding.severity}{code} {message}{origins_of(finding)}"
