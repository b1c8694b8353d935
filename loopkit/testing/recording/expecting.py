"""Expectations of a recording: what a careful person would expect of the same run."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil
from typing import Any

from loopkit.engine.findings import Finding
from loopkit.language import Machine
from loopkit.testing.trace import FeedbackGiven, Trace
from loopkit.text import printable

PIECE_CHARS = 80
"""The most characters of an expected message: distinctive, but short enough to read."""


def expectations_of(run: Trace, machine: Machine) -> dict[str, Any]:
    """The content of `expect:`."""
    suspended = run.state.suspended if run.state.status == "suspended" else None
    parts = {
        "outcome": run.outcome,
        "reason": suspended and suspended.reason,
        "path": list(run.path),
        "kept": list(run.kept),
        "verdicts": _verdicts(run),
        "findings": list(_findings(run)),
        "feedback": list(_feedback(run)),
        "revisions": {name: n for name, n in run.revisions.items() if name in machine.states},
        "calls": dict(run.calls),
        "cost_usd_at_most": upwards(run.cost_usd or 0.0),
        "events": list(run.emitted),
    }
    return {key: value for key, value in parts.items() if value}


def upwards(cost_usd: float) -> float:
    """A cost in millionths of a dollar, never less than it is."""
    return ceil(round(cost_usd * 1e6, 3)) / 1e6


def _verdicts(run: Trace) -> dict[str, list[str]]:
    verdicts: dict[str, list[str]] = {}
    for judged in run.judged:
        verdicts.setdefault(judged.state, []).append(judged.report.verdict)
    return verdicts


def _findings(run: Trace) -> Iterator[dict[str, Any]]:
    is_told_apart = len({judged.state for judged in run.judged}) > 1
    for judged in run.judged:
        where = {"state": judged.state} if is_told_apart else {}
        for finding in judged.report.findings:
            yield {**where, "attempt": judged.attempt, **_finding(finding)}


def _finding(finding: Finding) -> dict[str, Any]:
    named = {"validator": finding.validator, "message": piece(finding.message)}
    status = {} if finding.status == "new" else {"status": finding.status}
    return {**named, **status}


def _feedback(run: Trace) -> Iterator[dict[str, Any]]:
    for feedback in run.feedback:
        pieces = list(dict.fromkeys(_finding_pieces(run, feedback))) or [piece(feedback.text)]
        if any(pieces):
            yield {"to": feedback.to, "attempt": feedback.attempt, "contains": pieces}


def _finding_pieces(run: Trace, feedback: FeedbackGiven) -> Iterator[str]:
    """The pieces of messages that the feedback repeats from the reports before it."""
    before = [judged for judged in run.judged if judged.attempt < feedback.attempt][-2:]
    messages = (finding.message for judged in before for finding in judged.report.findings)
    return (short for text in messages if (short := piece(text)) and short in feedback.text)


def piece(text: str) -> str:
    """The beginning of a text, at most its first line that is not blank."""
    first = next((line.strip() for line in printable(text).splitlines() if line.strip()), "")
    return first if len(first) <= PIECE_CHARS else first[:PIECE_CHARS].rsplit(" ", 1)[0]
