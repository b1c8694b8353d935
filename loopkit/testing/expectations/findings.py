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
    for index, wanted in enumerate(expect.findings or ()):
        reports = matching_reports(run, wanted)
        found = [f for judged in reports for f in judged.report.findings if _fits(f, wanted)]
        is_right = bool(found) if wanted.count is None else len(found) == wanted.count
        if not reports:
            yield Miss(("findings", index), _unjudged(run, wanted))
        elif not is_right:
            lines = tuple(line for judged in reports for line in _report(judged))
            yield Miss(("findings", index), _mismatch(wanted, len(found)), lines)


def _fits(finding: Finding, wanted: ExpectedFinding) -> bool:
    return is_expected(finding, wanted) and (wanted.message or "").rstrip("\n") in finding.message


def _unjudged(run: Trace, wanted: ExpectedFinding) -> str:
    where = f"`{wanted.state}`" if wanted.state else "the run"
    known = [j for j in run.judged if wanted.state in (None, j.state)]
    if not known:
        return f"{where} gave no report"
    judged = ", ".join(str(attempt) for attempt in dict.fromkeys(j.attempt for j in known))
    return f"{where} judged no attempt {wanted.attempt}; it judged {judged}"


def _mismatch(wanted: ExpectedFinding, count: int) -> str:
    keys = ("code", "validator", "severity", "status", "origin")
    parts = [f"{key} `{value}`" for key in keys if (value := getattr(wanted, key)) is not None]
    if wanted.defaulted is not None:
        parts += ["an assumed origin" if wanted.defaulted else "an origin that is named"]
    parts += [f"{one_line(wanted.message)!r}"] if wanted.message is not None else []
    kind = f" with {' and '.join(parts)}" if parts else ""
    if wanted.count is None:
        return f"expected a finding{kind}, and there is none"
    return f"expected {plural(wanted.count, 'finding')}{kind}, and there are {count}"


def _report(judged: Judged) -> Iterator[str]:
    report = judged.report
    yield f"{judged.state}, attempt {judged.attempt}: {report.verdict}"
    for finding in report.findings:
        code = f" [{finding.code}]" if finding.code else ""
        message = one_line(finding.message, 160)
        yield f"- {finding.severity}{code} {message}{origins_of(finding)}"
