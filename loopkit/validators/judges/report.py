"""Reports in JSON, read strictly: a wrong verdict costs more than asking again."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from loopkit.engine.findings import Answer, Finding, verdict_of, with_findings
from loopkit.engine.identity import OF_CHECK
from loopkit.language.datatypes import fault_texts
from loopkit.language.machine import NO_FINDING
from loopkit.text import one_line
from loopkit.text.json_text import NoJson, canonical, json_in
from loopkit.validators.answer import answer_with
from loopkit.validators.fault import Fault
from loopkit.validators.judges.findings import OWN_WORDS_CHARS, findings_of
from loopkit.validators.judges.form import Doubt, Misread, VerdictWord, quote
from loopkit.validators.judges.known_findings import (
    KNOWN,
    read_open_findings,
    unresolved_findings,
)
from loopkit.validators.judges.report_findings import failed_checks, read_faults
from loopkit.validators.judges.report_form import ReportForm
from loopkit.validators.judges.report_numbers import (
    Miscount,
    refuse_counts,
    refuse_totals,
    unmet_criteria,
)
from loopkit.validators.judges.report_parts import MISSING, Report, excerpt, key_of, meaning, part

SAYS_NOTHING = "The reviewer rejects it without a reason."

MAX_FAULTS = 5
"""The most violations of its schema that a judge is told at once."""


def read_report(
    validator: str, text: str, form: ReportForm, *, is_played: bool = False
) -> Answer | Misread:
    """The verdict and the findings of a judge's report in this form.

    The report may stand in a fence or in prose; equal ones are one. Words may have any case, and
    unknown keys are ignored. Whatever leaves a doubt is Misread: no JSON, several different
    reports, a second verdict anywhere, an unknown word, a finding without message, `pass` with
    an error, `fail` without one, `warn` with none or with an error, counts that do not match,
    and a mapped report that breaks its schema. `pass` with warnings is read as `warn`. Never
    raises, and never passes by default. A played answer, which was prepared before the ids of open
    findings were known, may leave all of them out: its messages identify them.
    """
    listed: list[Finding] | None = None
    try:
        report, faults = form.conform_report(_find_report(text, form))
        if is_played and part(report, KNOWN) is MISSING:
            form = form.replace(known=())
        verdict = _verdict(report, form)
    except Doubt as doubt:
        return Misread(str(doubt))
    try:
        _refuse_faults(faults)
        named = read_faults(report, verdict, form)
        found = [fault for fault in named if fault.severity != NO_FINDING]
        listed = findings_of(validator, found, form)
        score = _score(report, form)
        findings = [*listed, *read_open_findings(validator, report, verdict, listed, form)]
        refuse_totals(report, (listed, findings), form)
        refuse_counts(report, named, form)
        failed = findings_of(validator, list(failed_checks(report, form)), form, OF_CHECK)
        if verdict is not None:
            _refuse_contradiction(report, verdict, findings, failed, form)
        if (verdict or verdict_of(findings)) == "pass":
            findings += findings_of(validator, unmet_criteria(report, form), form)
    except Doubt as doubt:
        is_kept = verdict == "fail" and not (isinstance(doubt, Miscount) and form.is_mapped)
        kept = _last_resort(validator, report, text, listed, form) if is_kept else None
        return Misread(str(doubt), kept)
    return answer_with(validator, [*findings, *failed]).replace(score=score)


def _refuse_faults(faults: Sequence[tuple[str, str]]) -> None:
    if faults:
        violations = "; ".join(fault_texts(faults[:MAX_FAULTS]))
        raise Doubt(f"The report breaks its schema: {violations}.")


def _verdict(report: Report, form: ReportForm) -> VerdictWord | None:
    """The verdict of a report; None where it may be left to the findings, and is."""
    word = part(report, form.verdict)
    if word is MISSING and not form.has_verdict:
        return None
    return meaning(word, form.verdicts, quote(form.verdict))


def _score(report: Report, form: ReportForm) -> float | None:
    """The score that the form asks for; None where it asks for none."""
    if form.score is None:
        return None
    value, key = part(report, form.parts.score), quote(form.parts.score)
    low, high = form.score.min, form.score.max
    expected = f"{key} must be a number from {low:g} to {high:g}"
    if value is MISSING:
        raise Doubt(f"{expected}, and is missing.")
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise Doubt(f"{expected}, not {excerpt(value)}.")
    return float(value)


def _refuse_contradiction(
    report: Report,
    verdict: VerdictWord,
    findings: Sequence[Finding],
    failed: Sequence[Finding],
    form: ReportForm,
) -> None:
    """A check that failed explains any verdict but contradicts none: it counts by itself."""
    severities = [one.severity for one in findings]
    if failed and verdict == "fail":
        severities += [one.severity for one in failed]
    if severities or not failed:
        form.refuse_contradiction(verdict, excerpt(part(report, form.verdict)), severities)


def _last_resort(
    validator: str, report: Report, text: str, listed: Sequence[Finding] | None, form: ReportForm
) -> Answer | None:
    """The answer for a rejection that can't be used as it is.

    An open finding that it does not call resolved stays open. The listed findings count if only
    the answers about open ones were wrong; else the judge's own words replace them.
    """
    known = unresolved_findings(validator, report, form)
    found = [*(listed or ()), *known]
    if form.known and listed is not None and any(finding.blocking for finding in found):
        return answer_with(validator, found)
    own = _in_own_words(validator, report, text, form)
    return own and with_findings(own, [*own.findings, *known])


def _in_own_words(validator: str, report: Report, text: str, form: ReportForm) -> Answer | None:
    """A `fail` that names nothing to correct, as one finding.

    Its message is made of the messages that the report lists, else of the text around the report.
    If both are empty, a report of another shape has no finding; for one in our own form, the author
    gets one sentence, and the reason, which a person sees, has the whole answer.
    """
    around = f"{text.partition('{')[0]}\n{text.rpartition('}')[2]}".replace("```json", "")
    said = _join_texts(form.rejection_texts(report)) or " ".join(around.replace("```", "").split())
    if not said and form.is_mapped:
        return None
    message = (said or SAYS_NOTHING)[:OWN_WORDS_CHARS]
    fault = Fault(message, message, severity=form.levels.ungraded, identified=False)
    reason = "" if said else f"it rejects and names nothing: {one_line(text, 500)}"
    return answer_with(validator, findings_of(validator, [fault], form)).replace(reason=reason)


def _join_texts(texts: Iterable[str]) -> str:
    """The texts, each once; those for which there is no room are left out whole."""
    joined = ""
    for text in dict.fromkeys(texts):
        longer = f"{joined}; {text}" if joined else text
        if len(longer) > OWN_WORDS_CHARS and joined:
            return joined if len(joined) + 3 > OWN_WORDS_CHARS else f"{joined}; …"
        joined = longer
    return joined


def _find_report(text: str, form: ReportForm) -> Report:
    """The one object in a text that has a verdict or findings; several equal ones are one.

    The object may stand by itself, in a fence or in prose. Raises Doubt if there is none or
    a different one, or if such a key is anywhere else: in something broken, in another object, or
    twice in the report with other capitals.
    """
    marks = (form.verdict, form.parts.findings)
    found = json_in(text)
    reports = [
        (value, span)
        for value, span in zip(found.values, found.spans, strict=True)
        if isinstance(value, dict) and any(part(value, mark) is not MISSING for mark in marks)
    ]
    if not reports:
        raise Doubt(_no_report_message(found.broken, form))
    if len({canonical(report) for report, _ in reports}) > 1:
        raise Doubt("The answer holds several different reports. Give exactly one.")
    report, _ = reports[0]
    stray = next(_stray_keys(text, report, [span for _, span in reports], form), None)
    if stray is not None:
        raise Doubt(f"The answer has {quote(stray)} in other places too. Give the report alone.")
    return report


def _no_report_message(broken: Sequence[NoJson], form: ReportForm) -> str:
    if broken:
        return f"The JSON cannot be read: {broken[0].reason}."
    mark = form.verdict if form.has_verdict else form.parts.findings
    return f"The answer holds no JSON object with the key {quote(mark)}."


def _stray_keys(
    text: str, report: Report, spans: Sequence[tuple[int, int]], form: ReportForm
) -> Iterator[str]:
    """The keys of verdict and findings that are also found outside the report."""
    edges = pairwise([(0, 0), *spans, (len(text), len(text))])
    outside = "\n".join(text[end:start] for (_, end), (start, _) in edges)
    for path in (form.verdict, form.parts.findings):
        key = key_of(path)
        written = rf"[\"']{re.escape(key)}[\"']\s*:"
        above = path.rpartition(".")[0]
        holder = part(report, above) if above else report
        if re.search(written, outside, re.IGNORECASE) or _count_key(holder, key) > 1:
            yield key
    # A finding of another shape may have a verdict of its own.
    if (
        not form.is_mapped
        and sum(_count_key(inner, "verdict") for inner in _values_inside(report)) > 1
    ):
        yield "verdict"


def _count_key(value: object, key: str) -> int:
    """How often a key stands in an object, capitals aside."""
    keys = value if isinstance(value, Mapping) else ()
    return sum(name.casefold() == key.casefold() for name in keys)


def _values_inside(value: object) -> Iterator[object]:
    yield value
    if isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _values_inside(inner)
