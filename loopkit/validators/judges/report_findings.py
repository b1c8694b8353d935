"""The findings of a judge's report, each read strictly."""

from __future__ import annotations

from typing import Any

from loopkit.engine.findings import Finding
from loopkit.engine.identity import Defect, finding_ids
from loopkit.language.machine import NO_FINDING
from loopkit.validators.answer import storable
from loopkit.validators.judges.only_report import Report
from loopkit.validators.judges.report_form import (
    MISSING,
    Doubt,
    ReportForm,
    VerdictWord,
    as_text,
    meaning,
    part,
    quoted,
    shown,
)

RULE = "judge"
"""The rule of all findings of a judge. The codes that it gives vary too much to identify any."""

MAX_LINE = 2**31


def report_findings(
    validator: str, report: Report, verdict: VerdictWord | None, form: ReportForm
) -> list[Finding]:
    """What the report lists, without the items whose severity means that they are no findings.

    `verdict` is what the report says itself; it stands in for a severity that may be missing.
    Raises Doubt at whatever is not in its form.
    """
    listed = enumerate(_listed(report, verdict, form), 1)
    read = [_read(item, f" of finding {number}", verdict, form) for number, item in listed]
    kept = [one for one in read if one["severity"] != NO_FINDING]
    defects = [
        Defect(RULE, str(one["location"]), str(one["message"]), str(one["key"])) for one in kept
    ]
    ids = finding_ids(validator, defects, shares_keys=form.shares_keys)
    return [
        Finding(
            id=identity,
            validator=validator,
            rule=RULE,
            blocking=form.levels.is_severe(str(one["severity"])),
            **one,
        )
        for identity, one in zip(ids, kept, strict=True)
    ]


def _listed(report: Report, verdict: VerdictWord | None, form: ReportForm) -> list[object]:
    listed = part(report, form.parts.findings)
    if verdict is not None and (listed is MISSING or listed is None):
        return []
    if not isinstance(listed, list):
        what = "objects" if form.is_own else "findings"
        was = "and is missing" if listed is MISSING else f"not {shown(listed)}"
        raise Doubt(f"{quoted(form.parts.findings)} must be a list of {what}, {was}.")
    return listed


def _read(item: object, at: str, verdict: VerdictWord | None, form: ReportForm) -> dict[str, Any]:
    if isinstance(item, str) and not form.is_own and form.parts.key is None:
        plain = ReportForm(is_own=False, levels=form.levels)
        return _fields({"message": item}, at, verdict, plain)
    if not isinstance(item, dict):
        raise Doubt(f"Each finding must be {_wanted(form)}, not {shown(item)}.")
    return _fields(item, at, verdict, form)


def _wanted(form: ReportForm) -> str:
    severity = form.severity if form.has_severity else None
    keys = [key for key in (form.parts.message, severity, form.parts.key) if key is not None]
    wanted = f"an object with {' and '.join(map(quoted, keys))}"
    return wanted if form.is_own or form.parts.key is not None else f"a text, or {wanted}"


def _fields(item: Report, at: str, verdict: VerdictWord | None, form: ReportForm) -> dict[str, Any]:
    message = _text(item, form.parts.message, at, form)
    if not message:
        key = quoted(form.parts.message)
        raise Doubt(f"{key}{at} is missing or blank. Say what is wrong and what is expected.")
    return {
        "message": message,
        "severity": _severity(item, at, verdict, form),
        "code": _code(item, at, form),
        "key": _key(item, at, form),
        "location": _text(item, form.parts.location, at, form),
        "line": _line(item, at, form),
    }


def _severity(item: Report, at: str, verdict: VerdictWord | None, form: ReportForm) -> str:
    said = part(item, form.severity)
    if said is MISSING and not form.has_severity:
        advises = verdict in ("pass", "warn")
        return form.levels.advisory if advises else form.levels.ungraded
    return meaning(said, form.severities, f"{quoted(form.severity)}{at}")


def _code(item: Report, at: str, form: ReportForm) -> str:
    said = part(item, form.parts.code)
    if said is MISSING or said is None or not form.parts.codes:
        return _text(item, form.parts.code, at, form)
    return meaning(said, form.parts.codes, f"{quoted(form.parts.code)}{at}")


def _key(item: Report, at: str, form: ReportForm) -> str:
    """What the finding is called in every round; where a `map` says where that stands, it must."""
    path = form.parts.key
    if path is None:
        return _text(item, "key", at, form) if form.is_own else ""
    key = _text(item, path, at, form)
    if not key:
        raise Doubt(f"{quoted(path)}{at} is missing. It tells the finding from others.")
    return key


def _text(item: Report, path: str, at: str, form: ReportForm) -> str:
    value = part(item, path)
    if value is MISSING or value is None:
        return ""
    # What another report counts or flags may be a number; our form has texts alone.
    text = value if isinstance(value, str) or form.is_own else as_text(value)
    if not isinstance(text, str):
        raise Doubt(f"{quoted(path)}{at} must be text, not {shown(value)}.")
    return storable(text).strip()


def _line(item: Report, at: str, form: ReportForm) -> int | None:
    line = part(item, form.parts.line)
    if line is MISSING or line is None:
        return None
    if isinstance(line, bool) or not isinstance(line, int) or not 1 <= line <= MAX_LINE:
        key = quoted(form.parts.line)
        raise Doubt(f"{key}{at} must be a line number, or be left out; it is {shown(line)}.")
    return line
