"""Spans of validate states, with the verdict of each validator."""

from __future__ import annotations

from loopkit.engine.events import Entered, Worked
from loopkit.engine.findings import Answer, Report
from loopkit.observability.otel import conventions as names
from loopkit.observability.otel.spans import RUN_SPAN, Attributes, Span, SpanEvent


def validate_span(
    entered: Entered, worked: Worked | None, own: str, start: float, end: float
) -> Span:
    """The span of a validate state; without a report if the run was suspended in it."""
    report = worked.report if worked is not None else None
    failed = "" if worked is None or worked.outcome == "done" else worked.outcome
    return Span(
        name=f"validate {entered.state}",
        run="",
        own=own,
        within=RUN_SPAN,
        start=start,
        end=end,
        attributes=_report_attributes(report) if report is not None else {},
        error=failed,
        events=tuple([_evaluation(answer, end) for answer in report.answers]) if report else (),
    )


def _report_attributes(report: Report) -> Attributes:
    blocking = sum(finding.blocking for finding in report.findings)
    return {
        names.ARTIFACT: report.artifact,
        names.VERSION: report.version,
        names.VERDICT: report.verdict,
        names.FINDINGS: len(report.findings),
        names.BLOCKING: blocking,
    }


def _evaluation(answer: Answer, at: float) -> SpanEvent:
    """The answer of a validator as the evaluation result of the conventions."""
    attributes: Attributes = {
        names.EVALUATION_NAME: answer.validator,
        names.EVALUATION_LABEL: answer.verdict,
        names.FINDINGS: len(answer.findings),
    }
    if answer.score is not None:
        attributes[names.EVALUATION_SCORE] = answer.score
    if answer.error_class is not None:
        attributes[names.ERROR] = answer.error_class
    return SpanEvent(names.EVALUATION, at, attributes)
