"""The reader of a judge's answer: a report, ours or by a `map`, or a verdict in text.

Reports in JSON are read strictly, their items, checks and totals too: a wrong verdict costs more
than asking again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from loopkit.engine.events import Replied
from loopkit.engine.findings import OF_CHECK, Answer, Finding, verdict_of, with_findings
from loopkit.language.datatypes.datatype import fault_texts
from loopkit.language.machine import NO_FINDING
from loopkit.language.validators.report_map import ReportMap
from loopkit.text import one_line
from loopkit.text.editing import messages_of
from loopkit.text.json_text import canonical, entries_of, json_in
from loopkit.validators.fault import Fault, amount, answer_with, further_fields
from loopkit.validators.judges.form import AnswerForm, Doubt, Misread, VerdictWord, fold, quote
from loopkit.validators.judges.prompt import KNOWN, read_open_findings, unresolved_findings
from loopkit.validators.judges.report_form import ReportForm
from loopkit.validators.judges.report_parts import (
    MAX_LINE,
    MISSING,
    OWN_WORDS_CHARS,
    Report,
    as_text,
    criteria_faults,
    excerpt,
    findings_of,
    key_of,
    meaning,
    part,
)
from loopkit.validators.judges.text import TextForm, TextVerdict, read_verdict

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
    if not reports and found.broken:
        raise Doubt(f"The JSON cannot be read: {found.broken[0].reason}.")
    if not reports:
        mark = form.verdict if form.has_verdict else form.parts.findings
        raise Doubt(f"The answer holds no JSON object with the key {quote(mark)}.")
    if len({canonical(report) for report, _ in reports}) > 1:
        raise Doubt("The answer holds several different reports. Give exactly one.")
    report, _ = reports[0]
    stray = next(_stray_keys(text, report, [span for _, span in reports], form), None)
    if stray is not None:
        raise Doubt(f"The answer has {quote(stray)} in other places too. Give the report alone.")
    return report


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
    for _, inner in entries_of(value):
        yield from _values_inside(inner)


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


class Miscount(Doubt):
    """A number of the report does not match what it lists."""


def refuse_totals(report: Report, counted: Sequence[Sequence[Finding]], form: ReportForm) -> None:
    """Raise Miscount where `error_count` or `warning_count` matches none of these lists.

    A report may count what it lists, or all that is open.
    """
    counts = ((form.parts.error_count, True), (form.parts.warning_count, False))
    for path, rejects in counts:
        numbers = [sum(f.blocking == rejects for f in findings) for findings in counted]
        _refuse_mismatch(report, path, numbers, f"there are {numbers[-1]} of them")


def refuse_counts(report: Report, listed: Sequence[Fault], form: ReportForm) -> None:
    """Raise Miscount where a number is not that of the items with its word or severity."""
    words = {fold(word) for word in form.severities}
    for severity, path in form.parts.counts.items():
        is_word = fold(severity) in words
        found = [(one.word or one.severity) if is_word else one.severity for one in listed]
        number = sum(fold(one) == fold(severity) for one in found)
        there = f"{amount(number)} listed with the severity {quote(severity)}"
        _refuse_mismatch(report, path, [number], there)


def _refuse_mismatch(report: Report, path: str, numbers: Sequence[int], there: str) -> None:
    value = part(report, path)
    if value is not MISSING and (isinstance(value, bool) or value not in numbers):
        raise Miscount(f"{quote(path)} is {excerpt(value)}, but {there}.")


def unmet_criteria(report: Report, form: ReportForm) -> Sequence[Fault]:
    """A warning where fewer criteria are met than were checked; raises Miscount."""
    if form.parts.met is None or form.parts.checked is None:
        return ()
    met, checked = _number(report, form.parts.met), _number(report, form.parts.checked)
    if met > checked:
        paths = map(quote, (form.parts.met, form.parts.checked))
        raise Miscount(f"{' is more than '.join(paths)}: {met} is more than {checked}.")
    return criteria_faults(met, checked, form)


def _number(report: Report, path: str) -> int:
    value = part(report, path)
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    was = "and is missing" if value is MISSING else f"not {excerpt(value)}"
    raise Miscount(f"{quote(path)} must be a number of criteria, {was}.")


def read_answer(
    validator: str, replied: Replied, form: AnswerForm, *, echoes: Sequence[str] = ()
) -> Answer | Misread:
    """The verdict and the findings of a judge's answer, which has to be in this form.

    `echoes` are its prompts, which the answer may quote.
    """
    if not replied.text.strip():
        return Misread("Your answer was empty.")
    if replied.cut_off:
        return Misread("Your answer was cut off before its end. Answer shorter.")
    repeats = any(form.nonce in text for text in (replied.text, *replied.said))
    if form.nonce and not replied.played and not repeats:
        return Misread(
            f"It does not repeat `{form.nonce}`, the code of this question, so it may be the "
            "answer to another one."
        )
    if isinstance(form, ReportForm):
        return read_report(validator, replied.text, form, is_played=replied.played)
    assert isinstance(form, TextForm)
    read = read_verdict(replied.said or messages_of(replied.text), form, echoes=echoes)
    if isinstance(read, TextVerdict):
        return answer_with(validator, findings_of(validator, read.faults, form))
    if read.last_resort is None:
        return Misread(read.reason)
    own_words = findings_of(validator, [read.last_resort], form)
    return Misread(read.reason, answer_with(validator, own_words))
