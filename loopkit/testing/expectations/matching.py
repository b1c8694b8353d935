"""The parts of a run that match an expectation: reports, findings, feedback, calls, texts."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from loopkit.engine.findings import Finding
from loopkit.scenario import ExpectedFeedback, ExpectedFinding, ExpectedPrompt
from loopkit.testing.trace import Asked, FeedbackGiven, Judged, Trace


def matching_reports(run: Trace, expected: ExpectedFinding) -> list[Judged]:
    """The reports to which an expected finding applies."""
    return [judged for judged in run.judged if _agree(expected, judged, ("state", "attempt"))]


def is_expected(finding: Finding, expected: ExpectedFinding) -> bool:
    """Whether a finding agrees in everything but its message, which is not compared."""
    keys = ("code", "severity", "status", "defaulted")
    is_meant = expected.validator in (None, *finding.named_by)
    return (
        is_meant and expected.origin in (None, *finding.origins) and _agree(expected, finding, keys)
    )


def matching_feedback(run: Trace, expected: ExpectedFeedback) -> list[FeedbackGiven]:
    """The feedback to which an expectation applies."""
    return [feedback for feedback in run.feedback if _agree(expected, feedback, ("to", "attempt"))]


def matching_prompts(run: Trace, expected: ExpectedPrompt) -> list[Asked]:
    """The calls to whose prompts an expectation applies."""
    keys = ("agent", "state", "attempt", "call")
    same = (asked for asked in run.asked if _agree(expected, asked, keys))
    return [asked for asked in same if expected.validator in (None, asked.place)]


def _agree(expected: object, found: object, keys: Iterable[str]) -> bool:
    """Whether `found` has all values that are given for these keys; None stands for any value."""
    return all(getattr(expected, key) in (None, getattr(found, key)) for key in keys)


def as_text(value: Any) -> str:
    """An artifact as a text; data in its usual form."""
    return value if isinstance(value, str) else as_json(value)


def as_json(value: Any) -> str:
    """Data in the form in which it is compared and shown."""
    return json.dumps(value, ensure_ascii=False, indent=2, sort_keys=True)
