"""Faults in a judge's report: each item of its list and each false check, read strictly."""

from __future__ import annotations

from collections.abc import Iterator

from loopkit.language import ReportMap
from loopkit.validators.fault import Fault
from loopkit.validators.further_fields import further_fields
from loopkit.validators.judges.findings import MAX_LINE
from loopkit.validators.judges.form import Doubt, VerdictWord, quote
from loopkit.validators.judges.report_form import ReportForm
from loopkit.validators.judges.report_parts import (
    MISSING,
    Report,
    as_text,
    excerpt,
    meaning,
    part,
)

RESULTS = {"true": "true", "false": "false"}
"""The values of a check in a report."""


def read_faults(report: Report, verdict: VerdictWord | None, form: ReportForm) -> list[Fault]:
    """A fault for each item of the report, also where its severity means that it is not a finding.

    `verdict` is that of the report itself; it replaces a severity that may be missing.
    Raises Doubt at whatever is not in this form.
    """
    listed = enumerate(_items(report, verdict, form), 1)
    return [_fault(item, f" of finding {number}", verdict, form) for number, item in listed]


def failed_checks(report: Report, form: ReportForm) -> Iterator[Fault]:
    """A fault for each false check; raises Doubt where one is neither true nor false."""
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


def _items(report: Report, verdict: VerdictWord | None, form: ReportForm) -> list[object]:
    listed = part(report, form.parts.findings)
    if isinstance(listed, str) and form.takes_texts:
        listed = [listed] if listed.strip() else None
    if verdict is not None and (listed is MISSING or listed is None):
        return []
    if not isinstance(listed, list):
        was = "and is missing" if listed is MISSING else f"not {excerpt(listed)}"
        raise Doubt(f"{quote(form.parts.findings)} must be a list of {form.items}, {was}.")
    return listed


def _fault(item: object, at: str, verdict: VerdictWord | None, form: ReportForm) -> Fault:
    if isinstance(item, str) and form.takes_texts:
        item, form = {"message": item}, form.replace(parts=ReportMap())
    if not isinstance(item, dict):
        raise Doubt(f"Each finding must be {_item_form(form)}, not {excerpt(item)}.")
    message = _text(item, form.parts.message, at, form)
    if not message:
        key = quote(form.parts.message)
        raise Doubt(f"{key}{at} is missing or blank. Say what is wrong and what is expected.")
    return Fault(
        message,
        message,
        severity=_severity(item, at, verdict, form),
        code=_code(item, at, form),
        key=_key(item, at, form),
        origins=_origins(item, at, form),
        location=_text(item, form.parts.location, at, form),
        line=_line(item, at, form),
        word=as_text(part(item, form.severity)) or "",
        fields={} if form.own_names is None else further_fields(item, form.own_names),
    )


def _item_form(form: ReportForm) -> str:
    severity = form.severity if form.has_severity else None
    keys = [key for key in (form.parts.message, severity, form.parts.key) if key is not None]
    record = f"an object with {' and '.join(map(quote, keys))}"
    return f"a text, or {record}" if form.takes_texts else record


def _severity(item: Report, at: str, verdict: VerdictWord | None, form: ReportForm) -> str:
    said = part(item, form.severity)
    if said is MISSING and not form.has_severity:
        return form.levels.advisory if verdict in ("pass", "warn") else form.levels.ungraded
    return meaning(said, form.severities, f"{quote(form.severity)}{at}")


def _code(item: Report, at: str, form: ReportForm) -> str:
    said = part(item, form.parts.code)
    if said is MISSING or said is None or not form.parts.codes:
        return _text(item, form.parts.code, at, form)
    return meaning(said, form.parts.codes, f"{quote(form.parts.code)}{at}")


def _key(item: Report, at: str, form: ReportForm) -> str:
    """The name of the finding in every round; required where a `map` has a path for it."""
    key = _text(item, form.key, at, form) if form.key is not None else ""
    if not key and form.parts.key is not None:
        raise Doubt(f"{quote(form.parts.key)}{at} is missing. It tells the finding from others.")
    return key


def _origins(item: Report, at: str, form: ReportForm) -> tuple[str, ...]:
    """The states that injected it, each once; empty where the report does not say."""
    said = MISSING if form.origin is None else part(item, form.origin)
    if form.origin is None or said is MISSING or said in (None, ""):
        return ()
    words, place = form.origin_words, f"{quote(form.origin)}{at}"
    named = [
        meaning(one, {word: word for word in words}, place)
        for one in (said if isinstance(said, list) else [said])
    ]
    return tuple(dict.fromkeys(state for word in named for state in words[word]))


def _text(item: Report, path: str, at: str, form: ReportForm) -> str:
    value = part(item, path)
    if value is MISSING or value is None:
        return ""
    text = form.text_of(value)
    if text is None:
        raise Doubt(f"{quote(path)}{at} must be text, not {excerpt(value)}.")
    return text.strip()


def _line(item: Report, at: str, form: ReportForm) -> int | None:
    line = part(item, form.parts.line)
    if line is MISSING or line is None:
        return None
    if isinstance(line, bool) or not isinstance(line, int) or not 1 <= line <= MAX_LINE:
        key = quote(form.parts.line)
        raise Doubt(f"{key}{at} must be a line number, or be left out; it is {excerpt(line)}.")
    return line
