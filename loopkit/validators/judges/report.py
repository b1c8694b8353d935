"""Reports of judges, read strictly: a wrong verdict costs more than asking again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace

from loopkit.engine.findings import Answer, Finding, with_findings
from loopkit.engine.identity import finding_id
from loopkit.language.datatypes import conform
from loopkit.language.machine import NO_FINDING
from loopkit.text import one_line
from loopkit.validators.answer import answer_with, storable
from loopkit.validators.judges.known_findings import KNOWN, not_resolved, still_open
from loopkit.validators.judges.only_report import Report, find_report
from loopkit.validators.judges.report_findings import RULE, report_findings
from loopkit.validators.judges.report_form import (
    MISSING,
    Doubt,
    ReportForm,
    VerdictWord,
    as_text,
    folded,
    key_of,
    meaning,
    part,
    quoted,
    shown,
    words_for,
)

WORDS_LIMIT = 2_000
"""Characters of a judge's own words that become a finding."""

SAYS_NOTHING = "The reviewer rejects it and does not say why."

MAX_FAULTS = 5
"""Places at which a report breaks its schema that its judge is told at once."""


@dataclass(frozen=True, slots=True)
class Misread:
    """No verdict could be read; the reason is in sentences that the judge can act on."""

    reason: str
    last_resort: Answer | None = None
    """Where it did say `fail`: that, with a blocking finding in its own words, for when asking
    again gives nothing better."""


def read_judgement(
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
        report, faults = _typed(find_report(text, form), form)
        if is_played and part(report, KNOWN) is MISSING:
            form = replace(form, known=())
        verdict = _verdict(report, form)
    except Doubt as doubt:
        return Misread(storable(str(doubt)))
    try:
        _refuse_faults(faults)
        listed = report_findings(validator, report, verdict, form)
        score = _score(report, form)
        findings = [*listed, *still_open(validator, report, verdict, listed, form)]
        _refuse_counts(report, (listed, findings), form)
        _refuse_contradiction(verdict, report, findings, form)
    except Doubt as doubt:
        kept = _last_resort(validator, report, text, listed, form) if verdict == "fail" else None
        return Misread(storable(str(doubt)), kept)
    return answer_with(validator, findings).replace(score=score)


def _typed(report: Report, form: ReportForm) -> tuple[Report, Sequence[tuple[str, str]]]:
    """The report with the defaults of its schema, and where it breaks it."""
    if form.datatype is None:
        return report, ()
    filled, faults = conform(report, form.datatype)
    return (filled if isinstance(filled, dict) else report), faults


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


def _refuse_contradiction(
    verdict: VerdictWord | None, report: Report, findings: Sequence[Finding], form: ReportForm
) -> None:
    if verdict is None:
        return
    has_error = any(finding.blocking for finding in findings)
    rejects = any(form.levels.rejects(finding.severity, form.cap) for finding in findings)
    said = f"The verdict is {shown(part(report, form.verdict))}, but"
    # Where nothing can reject, what is named has been said, whatever it was called.
    only_advises = form.cap is not None and not form.levels.is_severe(form.cap)
    if verdict == "fail" and not (findings if only_advises else has_error):
        raise Doubt(
            f"{said} {_nothing_blocks(findings, form)}. "
            "Name what has to be corrected, or give another verdict."
        )
    if verdict != "fail" and rejects:
        errors = words_for(form.severities, *form.levels.severe)
        raise Doubt(f"{said} a finding has the severity {errors}. {_to_agree(form)}")
    if verdict == "warn" and not findings:
        raise Doubt(
            f"{said} there are no findings. Name what should be better, or give another verdict."
        )


def _nothing_blocks(findings: Sequence[Finding], form: ReportForm) -> str:
    if findings or form.is_own:
        return f"no finding has the severity {words_for(form.severities, *form.levels.severe)}"
    return f"{quoted(form.parts.findings)} names none"


def _to_agree(form: ReportForm) -> str:
    """How a verdict that lets pass and a finding that blocks are brought together."""
    fails = words_for(form.verdicts, "fail")
    milder = words_for(form.severities, *form.levels.mild, NO_FINDING)
    ways = [f"the verdict {fails}"] if fails else []
    ways += [f"the finding a {milder}"] if milder else []
    return f"Make {', or '.join(ways) or 'them agree'}."


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
    named = _named_in_own(report, form) if form.is_own else _named_by_map(report, form)
    said = _joined(named) or " ".join(around.replace("```", "").split())
    message = storable(said or SAYS_NOTHING)[:WORDS_LIMIT]
    finding = Finding(
        id=finding_id(validator, RULE, "", message),
        message=message,
        severity=form.levels.ungraded,
        validator=validator,
        rule=RULE,
        identified=False,
    )
    reason = "" if said else storable(f"it rejects and names nothing: {one_line(text, 500)}")
    return answer_with(validator, [finding]).replace(reason=reason)


def _joined(texts: Iterable[str]) -> str:
    """The texts, each once; those that are too many are left out whole."""
    joined = ""
    for text in dict.fromkeys(texts):
        longer = f"{joined}; {text}" if joined else text
        if len(longer) > WORDS_LIMIT and joined:
            return joined if len(joined) + 3 > WORDS_LIMIT else f"{joined}; …"
        joined = longer
    return joined


def _named_in_own(report: Report, form: ReportForm) -> Iterator[str]:
    yield from _words(report, {form.verdict, form.severity, form.parts.code, KNOWN, "key"})


def _named_by_map(report: Report, form: ReportForm) -> Iterator[str]:
    """The checks that failed, and the message of everything that is listed."""
    yield from _failed_checks(report, form)
    listed = part(report, form.parts.findings)
    for item in listed if isinstance(listed, list) else ():
        message = item if isinstance(item, str) else as_text(part(item, form.parts.message))
        if message and message.strip():
            yield message.strip()


def _failed_checks(value: object, form: ReportForm) -> Iterator[str]:
    """What is false in a report, by its name; and each item beside the findings that fails."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if inner is False and key != key_of(form.verdict):
                yield f"{key}: false"
            elif key != key_of(form.parts.findings):
                yield from _failed_checks(inner, form)
    elif isinstance(value, list):
        for item in value:
            if isinstance(item, dict) and (failed := _failed_item(item, form)):
                yield failed
            else:
                yield from _failed_checks(item, form)


def _failed_item(item: Mapping[str, object], form: ReportForm) -> str:
    """The texts of an item that has a word which means `fail`; empty where it has none."""
    fails = {folded(word) for word, meant in form.verdicts.items() if meant == "fail"} | {"fail"}
    texts = [text.strip() for text in item.values() if isinstance(text, str) and text.strip()]
    if not any(folded(text) in fails for text in texts):
        return ""
    return ", ".join(text for text in texts if folded(text) not in fails)


def _words(value: object, no_words: Set[str]) -> Iterator[str]:
    """Every text in a report that says something."""
    if isinstance(value, str) and value.strip():
        yield value.strip()
    elif isinstance(value, dict):
        for key, inner in value.items():
            if key not in no_words:
                yield from _words(inner, no_words)
    elif isinstance(value, list):
        for inner in value:
            yield from _words(inner, no_words)
