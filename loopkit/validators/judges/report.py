"""Reports in JSON, read strictly: a wrong verdict costs more than asking again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from loopkit.engine.findings import Answer, Finding, with_findings
from loopkit.text import one_line
from loopkit.validators.answer import answer_with, storable
from loopkit.validators.fault import Fault
from loopkit.validators.judges.findings import findings_of
from loopkit.validators.judges.form import Doubt, Misread, VerdictWord, quoted
from loopkit.validators.judges.known_findings import KNOWN, not_resolved, still_open
from loopkit.validators.judges.report_findings import read_faults
from loopkit.validators.judges.report_form import (
    MISSING,
    Report,
    ReportForm,
    meaning,
    part,
    shown,
)
from loopkit.validators.judges.report_search import find_report

WORDS_LIMIT = 2_000
"""Characters of a judge's own words that become a finding."""

SAYS_NOTHING = "The reviewer rejects it and does not say why."

MAX_FAULTS = 5
"""Places at which a report breaks its schema that its judge is told at once."""


def read_report(
    validator: str, text: str, form: ReportForm, *, is_played: bool = False
) -> Answer | Misread:
    """The verdict and the findings of a judge's report in this form.

    The report may stand in a fence or in prose; equal ones are one. Words may have any case, and
    unknown keys are ignored. Whatever leaves a doubt is Misread: no JSON, several different
    reports, a second verdict anywhere, an unknown word, a finding without message, `pass` with
    an error, `fail` without one, `warn` with none or with an error, counts that do not match,
    and what breaks the schema of a mapped report. `pass` with warnings is read as `warn`. Total,
    and never a pass by default. An answer that was prepared before anybody knew the ids of open
    findings may leave all of them out: its messages tell.
    """
    listed: list[Finding] | None = None
    try:
        report, faults = form.conformed(find_report(text, form))
        if is_played and part(report, KNOWN) is MISSING:
            form = replace(form, known=())
        verdict = _verdict(report, form)
    except Doubt as doubt:
        return Misread(storable(str(doubt)))
    try:
        _refuse_faults(faults)
        listed = findings_of(validator, read_faults(report, verdict, form), form)
        score = _score(report, form)
        findings = [*listed, *still_open(validator, report, verdict, listed, form)]
        _refuse_counts(report, (listed, findings), form)
        if verdict is not None:
            word = shown(part(report, form.verdict))
            form.refuse_contradiction(verdict, word, [one.severity for one in findings])
    except Doubt as doubt:
        kept = _last_resort(validator, report, text, listed, form) if verdict == "fail" else None
        return Misread(storable(str(doubt)), kept)
    return answer_with(validator, findings).replace(score=score)


def _refuse_faults(faults: Sequence[tuple[str, str]]) -> None:
    told = [f"{where}: {what}" if where else what for where, what in faults[:MAX_FAULTS]]
    if told:
        raise Doubt(f"The report breaks its schema: {'; '.join(told)}.")


def _verdict(report: Report, form: ReportForm) -> VerdictWord | None:
    """None where the form leaves it to the findings, and the report does."""
    said = part(report, form.verdict)
    if said is MISSING and not form.has_verdict:
        return None
    return meaning(said, form.verdicts, quoted(form.verdict))


def _score(report: Report, form: ReportForm) -> float | None:
    """The number that the form asks for; none where it asks for none."""
    if form.score is None:
        return None
    said, key = part(report, form.parts.score), quoted(form.parts.score)
    low, high = form.score.min, form.score.max
    wanted = f"{key} must be a number from {low:g} to {high:g}"
    if said is MISSING:
        raise Doubt(f"{wanted}, and is missing.")
    if isinstance(said, bool) or not isinstance(said, int | float) or not low <= said <= high:
        raise Doubt(f"{wanted}, not {shown(said)}.")
    return float(said)


def _refuse_counts(report: Report, counted: Sequence[Sequence[Finding]], form: ReportForm) -> None:
    """A report may count what it lists, or all that is open."""
    counts = ((form.parts.error_count, True), (form.parts.warning_count, False))
    for path, rejects in counts:
        numbers = [sum(f.blocking == rejects for f in findings) for findings in counted]
        said = part(report, path)
        if said is not MISSING and (isinstance(said, bool) or said not in numbers):
            raise Doubt(f"{quoted(path)} is {shown(said)}, but there are {numbers[-1]} of them.")


def _last_resort(
    validator: str, report: Report, text: str, listed: Sequence[Finding] | None, form: ReportForm
) -> Answer:
    """A rejection that could not be used as it was.

    What was open and is not called resolved stays so. What the report lists counts where nothing
    but its answers to that was wrong; else the judge's own words stand for it.
    """
    known = not_resolved(validator, report, form)
    found = [*(listed or ()), *known]
    if form.known and listed is not None and any(finding.blocking for finding in found):
        return answer_with(validator, found)
    own = _in_own_words(validator, report, text, form)
    return with_findings(own, [*own.findings, *known])


def _in_own_words(validator: str, report: Report, text: str, form: ReportForm) -> Answer:
    """A fail that names nothing that has to be corrected, as one finding.

    Of a report of another shape what its `map` names and the checks that failed; else what stands
    around it. Where that is nothing the author gets one sentence, and the reason, which a person
    sees, has the whole answer.
    """
    around = f"{text.partition('{')[0]}\n{text.rpartition('}')[2]}".replace("```json", "")
    said = _joined(form.named(report)) or " ".join(around.replace("```", "").split())
    message = storable(said or SAYS_NOTHING)[:WORDS_LIMIT]
    fault = Fault(message, message, severity=form.levels.ungraded, identified=False)
    reason = "" if said else storable(f"it rejects and names nothing: {one_line(text, 500)}")
    return answer_with(validator, findings_of(validator, [fault], form)).replace(reason=reason)


def _joined(texts: Iterable[str]) -> str:
    """The texts, each once; those that are too many are left out whole."""
    joined = ""
    for text in dict.fromkeys(texts):
        longer = f"{joined}; {text}" if joined else text
        if len(longer) > WORDS_LIMIT and joined:
            return joined if len(joined) + 3 > WORDS_LIMIT else f"{joined}; …"
        joined = longer
    return joined
