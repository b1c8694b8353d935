"""The reader of judges' answers: an opinion out of a report or a text, and what counts of it.

A report, ours or by a `map`, and a text become an opinion in our own words, and one reader looks
whether it agrees with itself: a wrong verdict costs more than asking again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, Final, TypeAlias, TypeVar

from loopkit.document.problems import ProblemsFound
from loopkit.document.reading import read, why_unread
from loopkit.engine.events import Replied
from loopkit.engine.findings import OF_CHECK, OF_SCORE, SAYS_NOTHING, Answer, Finding, verdict_of
from loopkit.language.datatypes.datatype import fault_texts
from loopkit.language.machine import NO_FINDING
from loopkit.text import fold, one_line, shorten
from loopkit.text.editing import messages_of
from loopkit.text.json_text import (
    canonical,
    closed,
    entries_of,
    json_in,
    mend,
    parse_json,
    texts_in,
)
from loopkit.text.markdown import code_blocks
from loopkit.text.patterns import PatternTimeout
from loopkit.validators.fault import amount, answer_with, further_fields
from loopkit.validators.judges.form import (
    KNOWN,
    MAX_FAULTS,
    MAX_LINE,
    NONCE,
    OWN_WORDS_CHARS,
    STANDINGS,
    AnswerForm,
    Doubt,
    Misread,
    Opinion,
    Report,
    ReportForm,
    Standing,
    VerdictWord,
    identify,
    noting,
    quote,
    unmet_criteria,
)
from loopkit.validators.judges.text import TextForm, read_text
from loopkit.values import NOTHING


def read_answer(
    validator: str, replied: Replied, form: AnswerForm, *, echoes: Sequence[str] = ()
) -> Answer | Misread:
    """The verdict and the findings of a judge's answer, which has to be in this form.

    `echoes` are its prompts, which the answer may quote.
    """
    if not replied.text.strip():
        return Misread(f"Your answer was {'all thought' if replied.raw else 'empty'}.")
    repeats = any(form.nonce in text for text in (replied.text, *replied.said))
    if form.nonce and not replied.played and not repeats:
        return Misread(
            f"It does not repeat `{form.nonce}`, the code of this question, so it may be the "
            "answer to another one."
        )
    if isinstance(form, ReportForm):
        read = read_report(validator, replied.text, form, is_played=replied.played)
    else:
        assert isinstance(form, TextForm)
        said = replied.said or messages_of(replied.text)
        read = read_verdict(validator, said, form, echoes=echoes)
    if replied.cut_off:
        return _but_fail("Your answer was cut off before its end. Answer shorter.", read)
    return read


def _but_fail(reason: str, read: Answer | Misread) -> Misread:
    """Why an answer can't be used; a fail that can be read in it all the same is kept."""
    rest = read if isinstance(read, Answer) else read.last_resort
    rest = rest if rest is not None and rest.verdict == "fail" else None
    stands = rest is not None and (isinstance(read, Answer) or read.stands)
    return Misread(reason, rest, stands=stands)


def read_verdict(
    validator: str, messages: Sequence[str], form: TextForm, *, echoes: Sequence[str] = ()
) -> Answer | Misread:
    """The verdict and the findings that a reviewer gives in its messages; all are searched.

    `echoes` are texts that it was given and may have printed again. Never passes without a match.
    """
    try:
        opinion = read_text(validator, messages, form, echoes)
    except (Doubt, PatternTimeout) as doubt:
        return Misread(str(doubt))
    return conclude(validator, opinion, form)


def read_report(
    validator: str, text: str, form: ReportForm, *, is_played: bool = False
) -> Answer | Misread:
    """The verdict and the findings of a judge's report in this form.

    Never raises, and never passes by default. A played answer, which was prepared before the ids of
    open findings were known, may leave all of them out: its messages identify them.
    """
    try:
        opinion = _opinion_in(validator, text, form, is_played=is_played)
    except Doubt as doubt:
        if not any(mark.rpartition(".")[2] in text for mark in form.marks):
            return Misread(str(doubt))
        # No slip is mended for an approval.
        whole, _ = mend(closed(text))
        values = json_in(whole).values
        inner = [one for v in values for one in _values_in(v) if _reports_in(one, form.marks)]
        if len(inner) == 1 and inner[0] not in values:
            whole = canonical(inner[0])
        if whole == text:
            return Misread(str(doubt))
        return _but_fail(str(doubt), read_report(validator, whole, form, is_played=is_played))
    return conclude(validator, opinion, form)


def conclude(validator: str, said: Opinion, form: AnswerForm) -> Answer | Misread:
    """What counts of an opinion; Misread where any of it can't be read, or it contradicts itself.

    `pass` with warnings is `warn`, and with a check that failed and blocks it is a fail.
    """
    if said.verdict != "fail" and any(one.blocking for one in said.facts):
        said = said.replace(verdict="fail", conflicts=())
    conflicts = () if said.doubts else said.conflicts or tuple(form.contradictions(said))
    if not (said.doubts or conflicts):
        return answer_with(validator, [*said.findings, *said.facts]).replace(score=said.score)
    names_nothing = not (said.findings or said.conflicts)
    return Misread(
        " ".join(said.doubts or conflicts),
        _last_resort(validator, said, form),
        stands=said.stands,
        contradicts=bool(conflicts) and said.verdict != "fail" and not names_nothing,
    )


def _last_resort(validator: str, said: Opinion, form: AnswerForm) -> Answer | None:
    """The answer for a rejection that can't be used as it is: what can be read of it.

    It is never milder than what it lists, and blocks whatever that is. A warning that names nothing
    has the reviewer's own words, if they are not those of a report.
    """
    found, levels = [*said.findings, *said.facts], form.levels
    names_nothing = said.verdict == "warn" and not found and not said.doubts
    is_believed = not (said.conflicts and form.is_mapped)
    if not (is_believed and (said.verdict == "fail" or names_nothing)):
        return None
    if not found and said.words:
        level = form.default_level(said.verdict)
        own = Finding(id="", message=said.words, severity=level, identified=False)
        found = identify(validator, [own], form)
    if said.verdict == "fail" and not any(one.blocking for one in found):
        found = [one.with_level(levels.ungraded, blocking=True) for one in found]
    unread = f"not all of it can be read: {' '.join(said.doubts)}" if said.doubts else ""
    reason = "; ".join(filter(None, (said.remark, unread)))
    return answer_with(validator, found, reason) if found else None


# The parts of a report


Meaning = TypeVar("Meaning", bound=str)
MISSING: Final = object()
"""A part that a report does not have; null is a part that it has."""


def part(record: object, path: str) -> object:
    """The value at a dotted path, MISSING where a step does not exist.

    The path may lead through a text that holds JSON.
    """
    value = record
    for step in path.split("."):
        if isinstance(value, str):
            value = parse_json(value)
        if not isinstance(value, Mapping) or step not in value:
            return MISSING
        value = value[step]
    return value


def is_absent(value: object) -> bool:
    return value is MISSING or value is None


def meaning(value: object, words: Mapping[str, Meaning], place: str) -> Meaning:
    """The meaning of a word in a report; raises Doubt for an unknown one, never a default."""
    text = None if value is MISSING else as_text(value)
    for word, meant in words.items():
        if text is not None and fold(word) == fold(text):
            return meant
    raise Doubt(f"{place} must be one of {', '.join(map(quote, words))}, {but_was(value)}.")


def but_was(value: object) -> str:
    return "and is missing" if value is MISSING else f"not {excerpt(value)}"


def as_text(value: object) -> str | None:
    """A text unchanged; true, false, null or a number as JSON; None for anything else."""
    if isinstance(value, str):
        return value
    is_single = value is None or isinstance(value, bool | int | float)
    return json.dumps(value) if is_single else None


def excerpt(value: object) -> str:
    return shorten(canonical(value), 60)


# A report as an opinion


def _opinion_in(validator: str, text: str, form: ReportForm, *, is_played: bool) -> Opinion:
    """The opinion in the report of a text; raises Doubt where there is none, or no verdict."""
    found, around = _find_report(text, form)
    report, faults = form.conform_report(found)
    if is_played and part(report, KNOWN) is MISSING:
        form = form.replace(known=())
    verdict = _verdict(report, form)
    doubts = list[str]()
    conflicts = list[str]()
    if faults:
        violations = "; ".join(fault_texts(faults[:MAX_FAULTS]))
        doubts.append(f"The report breaks its schema: {violations}.")
    unread: list[str] = []
    named = [
        _finding(item, f" of finding {number}", verdict, form, unread)
        for number, item in enumerate(_items(report, verdict, form, unread), 1)
    ]
    listed = identify(validator, [one for _, one in named if one.severity != NO_FINDING], form)
    findings = list(listed)
    findings += _open_findings(validator, report, verdict, listed, form, unread, conflicts)
    facts = identify(validator, _failed_checks(report, form, unread), form, OF_CHECK)
    if form.is_mapped and verdict in ("warn", "fail") and not (findings or facts or unread):
        with noting(unread):
            # A report that names nothing may say itself what is wrong.
            said = _text(report, form.parts.message, "")
            own = Finding(id="", message=said, severity=form.default_level(verdict))
            findings = identify(validator, [own] if said else [], form)
    score = None
    with noting(unread):
        score = _score(report, form)
        if score is not None and form.least is not None and score < form.least:
            message = f"The score is {score:g}, and at least {form.least:g} is needed."
            low = Finding(id="", message=message, severity=form.levels.ungraded, key="score")
            facts += identify(validator, [low], form, OF_SCORE)
    with noting(unread):
        if (verdict or verdict_of(findings)) == "pass":
            facts = [*_unmet_criteria(validator, report, form), *facts]
    # What breaks the schema is told once.
    doubts = doubts or unread
    conflicts += _miscounts(report, named, (listed, findings), form)
    names_nothing = verdict == "fail" and not findings
    words = _own_words(report, around, form) if names_nothing else ""
    is_silent = names_nothing and not form.is_mapped and not words
    return Opinion(
        verdict=verdict,
        word="" if verdict is None else excerpt(part(report, form.verdict)),
        findings=findings,
        facts=facts,
        score=score,
        doubts=doubts,
        conflicts=() if doubts else conflicts,
        words=SAYS_NOTHING if is_silent else words,
        remark=f"it rejects and names nothing: {one_line(text, 500)}" if is_silent else "",
    )


def _verdict(report: Report, form: ReportForm) -> VerdictWord | None:
    """The verdict of a report; None where it may be left to the findings, and is."""
    word = part(report, form.verdict)
    if word is MISSING and not form.has_verdict:
        return None
    return meaning(word, form.verdicts, quote(form.verdict))


def _score(report: Report, form: ReportForm) -> float | None:
    if form.score is None:
        return None
    value = part(report, form.parts.score)
    low = form.score.min
    high = form.score.max
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        key = quote(form.parts.score)
        raise Doubt(f"{key} must be a number from {low:g} to {high:g}, {but_was(value)}.")
    return float(value)


def _own_words(report: Report, around: str, form: ReportForm) -> str:
    """The words of a `fail` that names nothing: texts in a report of ours, else those around it."""
    ours = {form.verdict, form.severity, form.parts.code, KNOWN, "key", NONCE, "origin"}
    texts = [] if form.is_mapped else [t for at, t in texts_in(report) if ours.isdisjoint(at)]
    said = "; ".join(dict.fromkeys(filter(None, map(str.strip, texts))))
    return shorten(said or " ".join(re.sub("```\\w*", "", around).split()), OWN_WORDS_CHARS)


def _find_report(text: str, form: ReportForm) -> tuple[Report, str]:
    """The one object in a text that has a verdict or findings, and the text around it.

    The object may stand by itself, in a fence or in prose; several equal ones are one. Raises Doubt
    if there is none or a different one, or if such a key is anywhere else: in something broken, in
    another object, or twice in the report with other capitals. A list of reports is these reports.
    """
    marks = form.marks
    in_yaml, rest, unread = _yaml_in(text, form) if form.is_mapped else ([], text, "")
    found = json_in(rest)
    spans = [(0, 0)] * len(in_yaml) + list(found.spans)
    values = (*in_yaml, *found.values)
    reports = [
        (report, span)
        for value, span in zip(values, spans, strict=True)
        for report in _reports_in(value, marks)
    ]
    if not reports:
        if found.broken:
            raise Doubt(f"The JSON cannot be read: {found.broken[0].reason}.")
        mark = form.verdict if form.has_verdict else marks[-1]
        if any(_reports_in(inner, marks) for value in values for inner in _values_in(value)):
            raise Doubt(
                f"The report with {quote(mark)} stands inside something else. Give it alone."
            )
        raise Doubt(f"The answer holds no JSON object with the key {quote(mark)}.{unread}")
    given = {canonical(report): report for report, _ in reports if report != form.example}
    if not given:
        raise Doubt("The answer repeats the example. Give a report of your own.")
    if len(given) > 1:
        raise Doubt("The answer holds several different reports. Give exactly one.")
    [report] = given.values()
    edges = pairwise([(0, 0), *(span for _, span in reports), (len(rest), len(rest))])
    around = "\n".join(rest[end:start] for (_, end), (start, _) in edges)
    if (stray := next(_stray_keys(around, report, form), None)) is not None:
        raise Doubt(f"The answer has {quote(stray)} in other places too. Give the report alone.")
    return report, around


def _reports_in(value: object, marks: Sequence[str]) -> list[Report]:
    """The value if it is a report, or the reports of a list that holds nothing else."""
    if isinstance(value, list):
        each = [_reports_in(item, marks) for item in value]
        return [report for reports in each for report in reports] if all(each) else []
    if not isinstance(value, dict) or all(part(value, mark) is MISSING for mark in marks):
        return []
    return [value]


def _yaml_in(text: str, form: ReportForm) -> tuple[Sequence[object], str, str]:
    """What a text holds in YAML, in fences or as a whole, the rest of it, and why it is no YAML.

    Only what has a key of the report at the start of a line is tried: prose is no YAML. Raises
    Doubt where a fence of YAML can't be read.
    """
    paths = form.verdict, form.parts.findings
    keys = "|".join(re.escape(path.partition(".")[0]) for path in paths)
    mark = re.compile(rf"^[\"']?(?:{keys})[\"']?[ \t]*:(?=\s)", re.MULTILINE)
    if not mark.search(text):
        return (), text, ""
    fences = [code for kind, code in code_blocks(text) if kind in ("", "yaml", "yml")]
    blocks = [one for one in fences if mark.search(one) and one.lstrip()[:1] not in ("{", "[")]
    if not blocks:
        if text.lstrip("\ufeff \r\n")[:1] in ("{", "["):
            return (), text, ""
        try:
            return (_yaml(text),), "", ""
        except Doubt as doubt:
            return (), text, f" {doubt}"
    rest = text
    for code in blocks:
        rest = rest.replace(code, "\n")
    if mark.search(rest):
        raise Doubt("The answer holds several reports, or parts of one. Give exactly one.")
    return [_yaml(code) for code in blocks], rest, ""


def _yaml(text: str) -> object:
    try:
        return read(text, "the answer").plain()
    except ProblemsFound as found:
        raise Doubt(f"Its YAML cannot be read: {why_unread(found)}.") from found


def _stray_keys(around: str, report: Report, form: ReportForm) -> Iterator[str]:
    """The keys of verdict, findings and deciding score that are also found outside the report."""
    for path in form.marks:
        above, _, key = path.rpartition(".")
        written = rf"[\"']{re.escape(key)}[\"']\s*:"
        holder = part(report, above) if above else report
        holder = parse_json(holder) if isinstance(holder, str) else holder
        if re.search(written, around, re.IGNORECASE) or _count_key(holder, key) > 1:
            yield key
    fails = [fold(word) for word, meant in form.verdicts.items() if meant == "fail"]
    key = form.verdict.rpartition(".")[2]
    spelled = re.escape(key).replace("_", "[_ -]")
    words = rf"^\W*{spelled}\W*[:=|]\W*(?:{'|'.join(map(re.escape, fails))})\b"
    # Nobody takes back a fail in the same answer by passing in another form.
    said = part(report, form.verdict)
    passes = is_absent(said) or fold(as_text(said) or "") not in fails
    if passes and fails and re.search(words, around, re.IGNORECASE | re.MULTILINE):
        yield key
    key = form.parts.findings.rpartition(".")[2]
    items = rf"(?m)^[ \t]*{re.escape(key)}:(?=\s)\s*(?:-[ \t]|\[[ \t]*[^\s\]])"
    if form.is_mapped and not part(report, form.parts.findings) and re.search(items, around):
        yield key
    # A finding of another shape may have a verdict of its own.
    if not form.is_mapped and sum(_count_key(one, "verdict") for one in _values_in(report)) > 1:
        yield "verdict"


def _count_key(value: object, key: str) -> int:
    """How often a key stands in an object; capitals, blanks and the like aside."""
    keys = value if isinstance(value, Mapping) else ()
    wanted, *names = (re.sub(r"[ _-]", "", name).casefold() for name in (key, *keys))
    return names.count(wanted)


def _values_in(value: object) -> Iterator[object]:
    yield value
    for _, inner in entries_of(value):
        yield from _values_in(inner)


def _items(
    report: Report, verdict: VerdictWord | None, form: ReportForm, doubts: list[str]
) -> Sequence[object]:
    listed = part(report, form.parts.findings)
    if isinstance(listed, str) and form.is_mapped:
        listed = [listed] if listed.strip() else None
    if isinstance(listed, list):
        return listed
    if (verdict is None and form.least is None) or not is_absent(listed):
        kind = "findings" if form.is_mapped else "objects"
        doubts.append(f"{quote(form.parts.findings)} must be a list of {kind}, {but_was(listed)}.")
    return [listed] if listed and isinstance(listed, dict | str) else ()


def _finding(
    item: object, at: str, verdict: VerdictWord | None, form: ReportForm, doubts: list[str]
) -> tuple[str, Finding]:
    """The item's word for its severity, and what can be read of it as a finding.

    Each part that can't be read costs that part alone. Without a severity that can be read it
    blocks, without a message it has all that it says.
    """
    levels = form.levels
    if isinstance(item, str) and form.takes_texts:
        word, severity, message = _marked(item.strip(), form)
        if not message:
            doubts.append(f'"message"{at} is missing or blank. Say what is wrong.')
            severity = NO_FINDING
        severity = severity or form.default_level(verdict)
        return word, Finding(id="", message=message, severity=severity)
    if not isinstance(item, dict):
        doubts.append(f"Each finding must be {form.item}, not {excerpt(item)}.")
        return "", Finding(id="", message=as_text(item) or excerpt(item), severity=levels.ungraded)
    read: dict[str, Any] = {"message": "", "severity": levels.ungraded}
    readers: Mapping[str, Reader] = {**_PARTS, "severity": partial(_severity, verdict)}
    for name, reader in readers.items():
        with noting(doubts):
            read[name] = reader(item, at, form)
    said = (text.strip() for at, text in texts_in(item) if form.severity not in at)
    read["message"] = read["message"] or shorten("; ".join(filter(None, said)), OWN_WORDS_CHARS)
    read["message"] = read["message"] or excerpt(item)
    kept = further_fields(item, form.own_names) or NOTHING
    return as_text(part(item, form.severity)) or "", Finding(id="", item=kept, **read)


def _marked(text: str, form: ReportForm) -> tuple[str, str, str]:
    """The word of `[WORD] message`, its severity and the message; blank where it has no such word.

    The word is one that the map translates.
    """
    mark = re.match(r"\[([^\[\]\n]{1,40})\]\s*", text)
    word = fold(mark[1]) if mark else ""
    levels = {**form.levels.of_verdicts(form.parts.verdicts), **form.parts.severities}
    severity = next((level for known, level in levels.items() if word and fold(known) == word), "")
    return (mark[1], severity, text[mark.end() :]) if mark and severity else ("", "", text)


def _severity(verdict: VerdictWord | None, item: Report, at: str, form: ReportForm) -> str:
    said = part(item, form.severity)
    if said is MISSING and not form.has_severity:
        return form.default_level(verdict)
    return meaning(said, form.severities, f"{quote(form.severity)}{at}")


def _code(item: Report, at: str, form: ReportForm) -> str:
    said = part(item, form.parts.code)
    if is_absent(said) or not form.parts.codes:
        return _text(item, form.parts.code, at)
    return meaning(said, form.parts.codes, f"{quote(form.parts.code)}{at}")


def _key(item: Report, at: str, form: ReportForm) -> str:
    """The name of the finding in every round; required where a `map` has a path for it."""
    key = _text(item, form.key, at) if form.key is not None else ""
    if not key and form.parts.key is not None:
        raise Doubt(f"{quote(form.parts.key)}{at} is missing. It tells the finding from others.")
    return key


def _origins(item: Report, at: str, form: ReportForm) -> tuple[str, ...]:
    """The states that injected it, each once; empty where the report does not say."""
    said = None if form.origin is None else part(item, form.origin)
    if form.origin is None or is_absent(said) or said == "":
        return ()
    words, place = form.origin_words, f"{quote(form.origin)}{at}"
    listed = said if isinstance(said, list) else [said]
    named = [meaning(one, {word: word for word in words}, place) for one in listed]
    return tuple(dict.fromkeys(state for word in named for state in words[word]))


def _text(item: Report, path: str, at: str) -> str:
    """A text, for which a number or a flag may stand; empty where there is none."""
    value = part(item, path)
    text = "" if is_absent(value) else as_text(value)
    if text is None:
        raise Doubt(f"{quote(path)}{at} must be text, not {excerpt(value)}.")
    return text.strip()


def _line(item: Report, at: str, form: ReportForm) -> int | None:
    line = part(item, form.parts.line)
    if is_absent(line):
        return None
    if type(line) is not int or not 1 <= line <= MAX_LINE:
        key = quote(form.parts.line)
        raise Doubt(f"{key}{at} must be a line number, or be left out; it is {excerpt(line)}.")
    return line


def _message(item: Report, at: str, form: ReportForm) -> str:
    if message := _text(item, form.parts.message, at):
        return message
    missing = f"{quote(form.parts.message)}{at} is missing or blank."
    raise Doubt(f"{missing} Say what is wrong and what is expected.")


Reader: TypeAlias = Callable[[Report, str, ReportForm], object]
_PARTS: Mapping[str, Reader] = {
    "message": _message,
    "code": _code,
    "key": _key,
    "origins": _origins,
    "location": lambda item, at, form: _text(item, form.parts.location, at),
    "line": _line,
}
"""The parts of a finding, each with its reader, which raises Doubt."""


def _failed_checks(report: Report, form: ReportForm, doubts: list[str]) -> list[Finding]:
    failed = []
    for path, check in form.parts.checks.items():
        result = "true"
        with noting(doubts):
            result = meaning(part(report, path), {"true": "true", "false": "false"}, quote(path))
        if result == "false":
            message = check.message or f"The check `{path}` is false."
            level = check.severity or form.levels.ungraded
            code = check.code
            made = Finding(id="", message=message, severity=level, code=code, key=path)
            failed.append(made.replace(origins=check.origin))
    return failed


def _miscounts(
    report: Report,
    named: Sequence[tuple[str, Finding]],
    counted: Sequence[Sequence[Finding]],
    form: ReportForm,
) -> list[str]:
    """The numbers that do not match; `error_count` and `warning_count` may be those of either list.

    A report may count what it lists, or all that is open.
    """
    parts, wrong = form.parts, list[str]()
    for path, rejects in ((parts.error_count, True), (parts.warning_count, False)):
        numbers = [sum(one.blocking == rejects for one in findings) for findings in counted]
        wrong += _mismatch(report, path, numbers, f"there are {numbers[-1]} of them")
    words = {fold(word) for word in form.severities}
    for severity, path in parts.counts.items():
        is_word = fold(severity) in words
        levels = [(is_word and word) or one.severity for word, one in named]
        number = sum(fold(level) == fold(severity) for level in levels)
        there = f"{amount(number)} listed with the severity {quote(severity)}"
        wrong += _mismatch(report, path, [number], there)
    return wrong


def _mismatch(report: Report, path: str, numbers: Sequence[int], there: str) -> Iterator[str]:
    value = part(report, path)
    if not is_absent(value) and (isinstance(value, bool) or value not in numbers):
        yield f"{quote(path)} is {excerpt(value)}, but {there}."


def _unmet_criteria(validator: str, report: Report, form: ReportForm) -> tuple[Finding, ...]:
    """A warning where fewer criteria are met than were checked; raises Doubt.

    A report that says neither number is read by its verdict.
    """
    paths = form.parts.met, form.parts.checked
    if paths[0] is None or paths[1] is None or all(is_absent(part(report, p)) for p in paths if p):
        return ()
    return unmet_criteria(validator, _number(report, paths[0]), _number(report, paths[1]), form)


def _number(report: Report, path: str) -> int:
    value = part(report, path)
    if type(value) is int and value >= 0:
        return value
    raise Doubt(f"{quote(path)} must be a number of criteria, {but_was(value)}.")


# The findings that were open, in a report of ours


def _open_findings(
    validator: str,
    report: Report,
    verdict: VerdictWord | None,
    listed: Sequence[Finding],
    form: ReportForm,
    doubts: list[str],
    conflicts: list[str],
) -> list[Finding]:
    """The earlier findings that are still open, without those that the report lists again.

    Each has to be answered by its id, and stays open else; a `pass` resolves what it leaves out.
    """
    if not form.known:
        return []
    known, ids = part(report, KNOWN), {one.id for one in form.known}
    standings: dict[str, Standing] = {}
    with noting(doubts):
        if not is_absent(known) and not isinstance(known, Mapping):
            raise Doubt(f"{quote(KNOWN)} must be an object with an answer for each id.")
    for identity, word in known.items() if isinstance(known, Mapping) else ():
        with noting(doubts):
            if identity not in ids:
                raise Doubt(f"{quote(KNOWN)} has {quote(identity)}, and no such finding was open.")
            place = f"{quote(identity)} of {quote(KNOWN)}"
            standings[identity] = meaning(word, STANDINGS, place)
    repeated = {one.id for one in listed}
    if again := [i for i in repeated if standings.get(i) == "resolved"]:
        conflicts.append(
            f"{quote(KNOWN)} says that {quote(again[0])} is resolved, and a finding says "
            "the same again. Make them agree."
        )
    left_out = ids - standings.keys() - repeated
    if left_out and verdict != "pass":
        named = ", ".join(quote(one.id) for one in form.known if one.id in left_out)
        answers = " or ".join(map(quote, STANDINGS))
        doubts.append(f"{quote(KNOWN)} does not say of {named} whether it is {answers}.")
    default: Standing = "resolved" if verdict == "pass" else "open"
    still_open = [
        _reopen(one, validator, form)
        for one in form.known
        if one.id not in repeated and standings.get(one.id, default) == "open"
    ]
    severe = [quote(f.id) for f in still_open if form.levels.rejects(f.severity, form.cap)]
    if severe and verdict != "fail":
        conflicts.append(
            f"The verdict is {excerpt(part(report, form.verdict))}, but {quote(KNOWN)} says that "
            f"{', '.join(severe)} is open, which has to be corrected. Make them agree."
        )
    return still_open


def _reopen(finding: Finding, validator: str, form: ReportForm) -> Finding:
    """An earlier finding as this judge repeats it, at the severity that it was given."""
    level = finding.graded or finding.severity
    if finding.defaulted:
        # A default origin is found anew: another author may have written this version.
        finding = finding.replace(origins=(), defaulted=False)
    return finding.replace(
        severity=level,
        graded="",
        blocking=form.levels.is_severe(level),
        validator=validator,
        reviewers=(),
        status="new",
        identified=True,
    )
