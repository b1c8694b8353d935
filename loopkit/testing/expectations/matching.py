"""The parts of a run that match an expectation: reports, findings, feedback, calls, texts."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from loopkit.engine.findings import Finding
from loopkit.scenario import ExpectedFeedback, ExpectedFinding, ExpectedPrompt
from loopkit.testing.trace import Asked, FeedbackGiven, Judged, Trace


def matching_reports(run: Trace, wanted: ExpectedFinding) -> list[Judged]:
    """The reports in which a finding is expected."""
    return [judged for judged in run.judged if _agree(wanted, judged, ("state", "attempt"))]


def is_expected(
    finding: Finding,
    wanted: ExpectedFinding,
    keys: Iterable[str] = ("code", "severity", "status", "defaulted"),
) -> bool:
    """Whether a finding has these keys, validator and origin of an expected one, message aside."""
    is_meant = wanted.validator in (None, *finding.named_by)
    return is_meant and wanted.origin in (None, *finding.origins) and _agree(wanted, finding, keys)


def matching_feedback(run: Trace, wanted: ExpectedFeedback) -> list[FeedbackGiven]:
    """The feedback of which a text is expected."""
    return [told for told in run.feedback if _agree(wanted, told, ("to", "attempt"))]


def matching_prompts(run: Trace, wanted: ExpectedPrompt) -> list[Asked]:
    """The calls of whose prompts a text is expected."""
    keys = ("agent", "state", "attempt", "call")
    same = (asked for asked in run.asked if _agree(wanted, asked, keys))
    return [asked for asked in same if wanted.validator in (None, asked.place)]


def _agree(wanted: object, found: object, keys: Iterable[str]) -> bool:
    """Whether all that is said of what is wanted is so; what is not said may be anything."""
    return all(getattr(wanted, key) in (None, getattr(found, key)) for key in keys)


def as_text(value: Any) -> str:
    """An artifact as a text; data in its usual form."""
    return value if isinstance(value, str) else as_json(value)


def as_json(value: Any) -> str:
    """Data in the form in which it is compared and shown."""
    return json.dumps(value, ensure_ascii=False, indent=2, sort_keys=True)
