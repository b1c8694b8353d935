"""The search for the one report in a judge's answer."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from loopkit.text.json_text import NoJson, canonical, json_in, parse_json
from loopkit.validators.judges.form import Doubt, quoted
from loopkit.validators.judges.report_form import MISSING, Report, ReportForm, key_of, part

_Placed = tuple[Report, tuple[int, int]]


def find_report(text: str, form: ReportForm) -> Report:
    """The one object in a text that has a verdict or findings; several equal ones are one.

    The object may stand by itself, in a fence or in prose. It is a Doubt if there is none or
    another one, or if such a key stands anywhere else: in something broken, in another object, or
    twice in the report with other capitals.
    """
    marks = (form.verdict, form.parts.findings)
    objects, broken = _objects(text)
    reports = [(o, at) for o, at in objects if any(part(o, m) is not MISSING for m in marks)]
    if not reports:
        raise Doubt(_no_report(broken, form))
    if len({canonical(report) for report, _ in reports}) > 1:
        raise Doubt("The answer holds several different reports. Give exactly one.")
    report, _ = reports[0]
    stray = next(_strays(text, report, [span for _, span in reports], form), None)
    if stray is not None:
        raise Doubt(f"The answer has {quoted(stray)} in other places too. Give the report alone.")
    return report


def _objects(text: str) -> tuple[list[_Placed], Sequence[NoJson]]:
    whole = parse_json(text)
    if not isinstance(whole, NoJson):
        return ([(whole, (0, len(text)))] if isinstance(whole, dict) else []), ()
    found = json_in(text)
    placed = zip(found.values, found.spans, strict=True)
    return [(value, span) for value, span in placed if isinstance(value, dict)], found.broken


def _no_report(broken: Sequence[NoJson], form: ReportForm) -> str:
    if broken:
        return f"The JSON cannot be read: {broken[0].reason}."
    mark = form.verdict if form.has_verdict else form.parts.findings
    return f"The answer holds no JSON object with the key {quoted(mark)}."


def _strays(
    text: str, report: Report, spans: Sequence[tuple[int, int]], form: ReportForm
) -> Iterator[str]:
    """The keys of verdict and findings that stand somewhere beside those of the report."""
    outside = _without(text, spans)
    for path in (form.verdict, form.parts.findings):
        key = key_of(path)
        written = rf"[\"']{re.escape(key)}[\"']\s*:"
        is_outside = re.search(written, outside, re.IGNORECASE) is not None
        if is_outside or _count(_holder(report, path), key) > 1:
            yield key
    if form.has_verdict_once and sum(_count(inner, "verdict") for inner in _inside(report)) > 1:
        yield "verdict"


def _without(text: str, spans: Sequence[tuple[int, int]]) -> str:
    starts = [0, *(end for _, end in spans)]
    ends = [*(start for start, _ in spans), len(text)]
    return "\n".join(text[start:end] for start, end in zip(starts, ends, strict=True))


def _holder(report: Report, path: str) -> object:
    above = path.rpartition(".")[0]
    return part(report, above) if above else report


def _count(value: object, key: str) -> int:
    """How often a key stands in an object, capitals aside."""
    keys = value if isinstance(value, Mapping) else ()
    return sum(name.casefold() == key.casefold() for name in keys)


def _inside(value: object) -> Iterator[object]:
    yield value
    if isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _inside(inner)
