"""Diagnostics: findings as data for a model or a program that corrects what was judged."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from loopkit.engine.findings import Finding, Report
from loopkit.text import shorten

MOST_CHARS = 20_000
"""The most characters of all diagnostics together, as JSON."""
MOST_TEXT_CHARS = 1_000
"""The most characters of a message."""
_PROPERTIES = {
    "message": {"type": "string"},
    "severity": {"type": "string"},
    # Where a finding has none, a field of this name may be its reviewer's own, of any type.
    "code": {"description": "A name for what is wrong."},
    "location": {"description": "Where in data, such as `nodes[2].id`."},
    "line": {"description": "Where in a text, 1-based."},
}
SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "ok": {"type": "boolean", "description": "Whether nothing has to be corrected."},
        "verdict": {"enum": ["pass", "warn", "fail", "infeasible", "not_applicable"]},
        "reason": {"type": "string", "description": "Why it can't be done."},
        "diagnostics": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": _PROPERTIES,
                "required": ["message", "severity"],
            },
        },
        "left_out": {"type": "integer", "description": "How many more there are."},
    },
    "required": ["ok", "verdict", "diagnostics"],
}
"""JSON Schema of `report_diagnostics`."""


def report_diagnostics(report: Report, most: int) -> dict[str, Any]:
    """The verdict and the diagnostics of a report that is not `incomplete`."""
    data = {"verdict": report.verdict, **diagnostics(report.findings, most)}
    return {**data, "reason": shorten(report.reason, MOST_TEXT_CHARS)} if report.reason else data


def diagnostics(findings: Sequence[Finding], most: int) -> dict[str, Any]:
    """Whether nothing blocks, and at most `most` findings, those that block first.

    `left_out` counts the findings beyond that, or beyond 20,000 characters.
    """
    ordered = sorted(findings, key=lambda finding: not finding.blocking)
    listed: list[dict[str, Any]] = []
    room = MOST_CHARS
    for one in map(diagnostic, ordered[:most]):
        room -= len(json.dumps(one, ensure_ascii=False))
        if room < 0:
            break
        listed.append(one)
    data: dict[str, Any] = {
        "ok": not any(finding.blocking for finding in findings),
        "diagnostics": listed,
    }
    left_out = len(findings) - len(listed)
    return {**data, "left_out": left_out} if left_out else data


def diagnostic(finding: Finding) -> dict[str, Any]:
    """A finding as data; the further fields of its reviewer come first."""
    own = {
        "code": shorten(finding.code, MOST_TEXT_CHARS),
        "message": shorten(finding.message, MOST_TEXT_CHARS),
        "severity": finding.severity,
        "location": shorten(finding.location, MOST_TEXT_CHARS),
        "line": finding.line,
    }
    return {**finding.item, **{name: value for name, value in own.items() if value}}
