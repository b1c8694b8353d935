"""Checks of how reports and texts are read: `map`, `verdict`, patterns and schemas.

`bad-path`, `empty`, `form-untold`: a `map` whose parts overlap or whose judge lacks its form.
`unknown-field`, `unknown-word`, `bad-path`: a `map` does not fit its agent's `schema:`.
`bad-word`, `one-sided`: tables with one word twice, or with one outcome only.
`bad-pattern`, `unknown-pattern`, `empty-range`: patterns and counts that can't be used.
`missing-group`, `unknown-group`, `two-readings`: `verdict:` can't read the answer.
`no-keyword`: a JSON Schema, or a file in place of one, that says nothing about data.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import unquote

from loopkit.checks.references import is_plain_id
from loopkit.checks.subject import Subject
from loopkit.document.document import DocPath, Document
from loopkit.document.problems import Problem, ProblemsFound, closest, did_you_mean
from loopkit.document.reading import read
from loopkit.language.bundling import schemas_in
from loopkit.language.datatypes.datatype import DataType
from loopkit.language.datatypes.notation import parse_fields
from loopkit.language.json_schema import DEFINITIONS, Silence, keywords, silent_parts
from loopkit.language.section import WAITS, ErrorRule
from loopkit.language.validators import MatchesRule, Rule
from loopkit.language.validators.command import CommandRule
from loopkit.language.validators.judge import JudgeRule
from loopkit.language.validators.report_map import GROUPS, ReportMap, VerdictReading
from loopkit.text import fold
from loopkit.text.patterns import PatternError, compile_pattern
from loopkit.values import Value

if TYPE_CHECKING:
    from regex import Pattern

    from loopkit.validators.judges.form import ReportForm

OF_BOOLS = '; a bool\'s are "true" and "false"'
TABLES = ("verdicts", "severities", "codes", "origins")


def check_report_maps(subject: Subject) -> Iterator[Problem]:
    for placed in subject.rules:
        rule, path = placed.rule, (*placed.path, "map")
        if rule.report_map is None:
            continue
        if isinstance(rule, JudgeRule):
            yield from _check_form(subject, path, rule)
        yield from _of_map(subject, path, rule.report_map)


def _of_map(subject: Subject, path: DocPath, read: ReportMap) -> Iterator[Problem]:
    if read == ReportMap():
        message = "`map` maps nothing, so it has no effect"
        remedy = "name the parts that have other names in the report, such as `findings: issues`"
        yield subject.problem(path, "empty", message, remedy, key=True)
    yield from _two_in_one(subject, path, read)
    for table in TABLES:
        words: Mapping[str, object] = getattr(read, table)
        yield from ambiguous(subject, (*path, table), words)
    yield from one_sided(subject, (*path, "verdicts"), read.verdicts, OF_BOOLS)
    if read.origin is not None and not subject.machine.origins:
        message = "`origin` is not read: the machine declares no `origins`"
        yield subject.no_effect((*path, "origin"), message)


def _check_form(subject: Subject, path: DocPath, rule: JudgeRule) -> Iterator[Problem]:
    agent = subject.machine.agents.get(rule.judge)
    if rule.prompt is None and agent is not None and agent.schema_ is None:
        message = "nothing tells this judge to answer in the form that `map` reads"
        remedy = f"give the agent `{rule.judge}` a `schema:`, or write a `prompt:` here "
        remedy += "that says how to answer"
        yield subject.problem(path, "form-untold", message, remedy, key=True)


def _two_in_one(subject: Subject, path: DocPath, read: ReportMap) -> Iterator[Problem]:
    verdict, findings = read.verdict, read.findings
    if verdict is not None and (_leads_into(verdict, findings) or _leads_into(findings, verdict)):
        message = f"`{verdict}` cannot be the verdict where `{findings}` is the list of findings"
        remedy = "name the field whose value is the word of the verdict"
        yield subject.problem((*path, "verdict"), "bad-path", message, remedy)


def _leads_into(outer: str, inner: str) -> bool:
    return f"{inner}.".startswith(f"{outer}.")


def ambiguous(
    subject: Subject, path: DocPath, words: Mapping[str, object], taken: Sequence[str] = ()
) -> Iterator[Problem]:
    """Words that the reader does not distinguish, or that are taken, and an empty word."""
    known = {fold(word): f"{word}`, which has a meaning already" for word in taken}
    for word in words:
        if not fold(word):
            message = "this word is empty"
            remedy = "write the word that the report has there"
        elif (before := known.setdefault(fold(word), f"{word}`")) != f"{word}`":
            message = f"`{word}` is the same word as `{before}"
            remedy = "words are compared without regard to case; delete one of them"
        else:
            continue
        yield subject.problem((*path, word), "bad-word", message, remedy, key=True)


def one_sided(
    subject: Subject, path: DocPath, words: Mapping[str, str], more: str = ""
) -> Iterator[Problem]:
    meanings = set(words.values())
    if not meanings or ("fail" in meanings and meanings & {"pass", "warn"}):
        return
    lacking = "accept" if "fail" in meanings else "reject"
    only = "reject" if lacking == "accept" else "accept"
    message = f"with these words the judge can only {only}"
    remedy = f"add the word with which it would {lacking}{more}"
    yield subject.warning(path, "one-sided", message, remedy, key=True)


def check_patterns(subject: Subject) -> Iterator[Problem]:
    """Those under `patterns:`, in rules, in `fields:` of an output and in `errors:` of an agent."""
    named = subject.machine.patterns
    for name, pattern in named.items():
        yield from _pattern(subject, ("patterns", name), pattern)
    for path, pattern in pattern_places(subject):
        if pattern not in named:
            yield from _pattern(subject, path, pattern)
            yield from _misspelt_pattern(subject, path, pattern)
    agents = subject.machine.agents.items()
    placed: list[tuple[DocPath, tuple[ErrorRule, ...]]] = [
        *((("agents", name), agent.error_rules) for name, agent in agents),
        *((placed.path, placed.rule.errors) for placed in subject.rules_of(CommandRule)),
    ]
    for path, errors in placed:
        for index, rule in enumerate(errors):
            for key, text in (("stderr", rule.stderr), ("stdout", rule.stdout)):
                if text is not None:
                    at = (*path, "errors", index, key)
                    faults = list(_pattern(subject, at, text))
                    yield from faults or _groups(subject, at, text)


def pattern_places(subject: Subject) -> Iterator[tuple[DocPath, str]]:
    """Every place where a pattern, or the name of one, is written."""
    for placed in subject.rules:
        yield from (((*placed.path, *at), pattern) for at, pattern in placed.rule.patterns)
    for name, state in subject.states.items():
        output = state.output_at(name)
        for field, how in output.fields.items() if output is not None else ():
            for key in ("match", "all", "count"):
                if pattern := getattr(how, key, ""):
                    yield ("states", name, "output", "fields", field, key), pattern


def _pattern(subject: Subject, path: DocPath, pattern: str) -> Iterator[Problem]:
    try:
        compile_pattern(pattern)
    except PatternError as error:
        before = pattern[: error.position or 0]
        message = f"this is not a regular expression: {error.reason}"
        remedy = (
            "to match such a character literally, put a backslash before it: `\\(`, `\\[`, `\\*`"
        )
        line = before.count("\n") + 1
        column = len(before) - (before.rfind("\n") + 1) + 1
        yield subject.source.problem_inside(
            path, "bad-pattern", message, help=remedy, line=line, column=column
        )


def _groups(subject: Subject, path: DocPath, pattern: str) -> Iterator[Problem]:
    """The groups of a pattern under `errors:`, which say when to go on."""
    for name in sorted(compile_pattern(pattern).groupindex.keys() - WAITS):
        near = closest(name, sorted(WAITS))
        remedy = f"did you mean `{near}`?" if near else "write `(?:…)`"
        yield subject.no_effect(path, f"nothing reads the group `{name}`", remedy)


def _misspelt_pattern(subject: Subject, path: DocPath, pattern: str) -> Iterator[Problem]:
    near = closest(pattern, subject.machine.patterns) if is_plain_id(pattern) else None
    if near is not None:
        message = f"there is no pattern `{pattern}`, so this looks for the word itself"
        remedy = f"did you mean `{near}`?"
        yield subject.warning(path, "unknown-pattern", message, remedy)


def check_counts(subject: Subject) -> Iterator[Problem]:
    for placed in subject.rules_of(MatchesRule):
        least = placed.rule.count.min
        most = placed.rule.count.max
        if most is not None and least > most:
            message = f"no count is at least {least} and at most {most}"
            remedy = "swap them" if most else "use `not_matches:` for what must not match"
            path = (*placed.path, "count")
            yield subject.problem(path, "empty-range", message, remedy)


KINDS = {"a number": ("int", "num"), "true or false": ("bool",)}
"""The types of the numbers and the checks of a report."""
OF_FINDINGS = ("message", "severity", "code", "key", "origin", "location", "line")
OF_FORM = ("severity", "origin")
"""Those among them whose paths the form itself has."""


class _Fit(Value, frozen=True):
    """One map, compared with one declared report."""

    subject: Subject
    path: DocPath
    judge: str
    form: ReportForm
    report: DataType

    def problem(self, key: str, code: str, message: str, remedy: str) -> Problem:
        """A problem at a key of the map, or at the map where the key is not written."""
        written = self.is_written(key)
        path = (*self.path, key) if written else self.path
        return self.subject.problem(path, code, message, remedy, key=not written)

    def is_written(self, key: str) -> bool:
        return bool(getattr(self.form.parts, key) != getattr(ReportMap(), key))


def check_report_schemas(subject: Subject) -> Iterator[Problem]:
    for placed in subject.rules_of(JudgeRule):
        rule, machine = placed.rule, subject.machine
        agent = machine.agents.get(rule.judge)
        if rule.map is not None and agent is not None and agent.schema_:
            # What reads reports is not loaded for a machine without a map.
            from loopkit.validators.judges.form import report_form_of  # noqa: PLC0415

            form = report_form_of(rule, agent, machine.levels, machine.origins)
            report = parse_fields(agent.schema_)
            path = (*placed.path, "map")
            fit = _Fit(subject, path, rule.judge, form, report)
            yield from _verdict(fit)
            yield from _findings(fit)
            yield from _results(fit)


def _verdict(fit: _Fit) -> Iterator[Problem]:
    found = _at(fit.report, fit.form.verdict)
    if isinstance(found, tuple) and fit.form.has_verdict:
        yield _no_field(fit, "verdict", fit.form.verdict, found)
    elif isinstance(found, DataType) and (found.fields is not None or found.items is not None):
        message = f"`{fit.form.verdict}` is not a single word in the schema of `{fit.judge}`"
        yield fit.problem("verdict", "bad-path", message, "name the field that is the verdict")
    elif isinstance(found, DataType):
        yield from _words(fit, "verdicts", found, fit.form.verdicts)


def _findings(fit: _Fit) -> Iterator[Problem]:
    path = fit.form.parts.findings
    found = _at(fit.report, path)
    if isinstance(found, tuple):
        yield _no_field(fit, "findings", path, found)
    elif found is not None and found.items is not None:
        yield from _of_item(fit, found.items)
    # A text stands for one finding.
    elif found is not None and not _is_open(found) and (found.scalar != "str" or found.values):
        message = f"`{path}` is not a list in the schema of `{fit.judge}`"
        yield fit.problem("findings", "bad-path", message, "name the list of findings")


def _results(fit: _Fit) -> Iterator[Problem]:
    parts = fit.form.parts
    numbers: dict[DocPath, str | None] = {("met",): parts.met, ("checked",): parts.checked}
    numbers |= {("counts", severity): path for severity, path in parts.counts.items()}
    places = [(at, path, "a number") for at, path in numbers.items() if path is not None]
    places += [(("checks", path), path, "true or false") for path in parts.checks]
    for at, path, kind in places:
        found = _at(fit.report, path)
        place = (*fit.path, *at)
        is_key = at[0] == "checks"
        if isinstance(found, tuple):
            message = f"the schema of `{fit.judge}` has no field `{path}`"
            remedy = did_you_mean(path, found)
            yield fit.subject.problem(place, "unknown-field", message, remedy, key=is_key)
        elif found is not None and not _is_open(found) and found.scalar not in KINDS[kind]:
            message = f"`{path}` is not {kind} in the schema of `{fit.judge}`"
            remedy = f"name a field that is {kind}"
            yield fit.subject.problem(place, "bad-path", message, remedy, key=is_key)


def _is_open(found: DataType) -> bool:
    """Whether a JSON Schema says nothing of the type."""
    return found.scalar is None and found.fields is None and found.items is None


def _of_item(fit: _Fit, item: DataType) -> Iterator[Problem]:
    if item.fields is None:
        return
    required = {"message", *(["severity"] if fit.form.has_severity else [])}
    for key in OF_FINDINGS:
        path: str | None = getattr(fit.form if key in OF_FORM else fit.form.parts, key)
        found = None if path is None else _at(item, path)
        if path and isinstance(found, tuple) and (key in required or fit.is_written(key)):
            yield _no_field(fit, key, path, found)
    if isinstance(severity := _at(item, fit.form.severity), DataType):
        yield from _words(fit, "severities", severity, fit.form.severities)
    if isinstance(code := _at(item, fit.form.parts.code), DataType) and fit.form.parts.codes:
        yield from _words(fit, "codes", code, fit.form.parts.codes)
    origin = None if fit.form.origin is None else _at(item, fit.form.origin)
    if isinstance(origin, DataType):
        # A missing or null value leaves it open.
        words = (origin.items or origin).replace(optional=False)
        yield from _words(fit, "origins", words, fit.form.origin_words)


def _words(
    fit: _Fit, table: str, datatype: DataType, words: Mapping[str, object]
) -> Iterator[Problem]:
    """Words that the schema allows and the table does not know, and vice versa."""
    allowed = _possible_words(datatype)
    known = {fold(word) for word in words}
    unknown = [word for word in allowed if fold(word) not in known]
    if unknown:
        named = ", ".join(f"`{word}`" for word in unknown)
        message = f"`{table}` does not know {named}, which the schema of `{fit.judge}` allows"
        remedy = f"say under `{table}:` what it means"
        yield fit.problem(table, "unknown-word", message, remedy)
    written: Mapping[str, object] = getattr(fit.form.parts, table)
    for word in written if allowed else ():
        if word not in allowed:
            yield _misspelt_word(fit, table, word, allowed)


def _misspelt_word(fit: _Fit, table: str, word: str, allowed: Sequence[str]) -> Problem:
    """A word that no report can have, or that the schema spells differently."""
    near = next((one for one in allowed if fold(one) == fold(word)), None)
    message = f"the schema of `{fit.judge}` does not allow `{word}` there"
    remedy = f"write it as there: `{near}`" if near else did_you_mean(word, allowed)
    path = (*fit.path, table, word)
    tell = fit.subject.warning if near else fit.subject.problem
    return tell(path, "unknown-word", message, remedy, key=True)


def _possible_words(datatype: DataType) -> tuple[str, ...]:
    """The words that a report can have there; empty if they cannot be listed."""
    words = ("true", "false") if datatype.scalar == "bool" else datatype.values
    # An optional value that is left out is null.
    return (*words, "null") if words and datatype.optional else words


def _at(datatype: DataType, path: str) -> DataType | tuple[str, ...] | None:
    """The type at a path, None if the JSON Schema leaves it open, else what there is instead."""
    found: DataType = datatype
    before: list[str] = []
    for step in path.split("."):
        if found.fields is None:
            # A text may hold JSON.
            return None if _is_open(found) or found.scalar == "str" else ()
        known = found.field(step)
        if known is None:
            return tuple(".".join([*before, name]) for name in found.fields)
        found = known
        before.append(step)
    return found


def _no_field(fit: _Fit, key: str, path: str, choices: tuple[str, ...]) -> Problem:
    where = "the schema" if key in ("verdict", "findings") else "a finding in the schema"
    message = f"{where} of `{fit.judge}` has no field `{path}`"
    near = did_you_mean(path, choices)
    remedy = near if fit.is_written(key) else f"add `{key}:` with its path; {near}"
    return fit.problem(key, "unknown-field", message, remedy.removesuffix("; "))


_DATA = "a file of data is the default of an input: `{type: {...: any}, default: {file: %s}}`"


def check_silent_schemas(subject: Subject) -> Iterator[Problem]:
    machine = json.loads(subject.loaded.resolved)["machine"]
    for path, schema in schemas_in(machine):
        for silence in silent_parts(schema):
            yield _problem(subject, path, silence)


def _problem(subject: Subject, path: DocPath, silence: Silence) -> Problem:
    here = (*path, *silence.steps)
    if here in subject.source.included:
        name = unquote(str(here[-1]))
        message = f"`{name}` has no keyword of JSON Schema, so it allows anything"
        is_part = silence.words <= DEFINITIONS
        remedy = f"name one of its parts: `$ref: {name}#/$defs/NAME`" if is_part else _DATA % name
        return _place(subject, (*path, *silence.referred_from), message, remedy)
    message = "this JSON Schema has no keyword, so it allows anything"
    return _place(subject, here, message, _remedy(silence))


def _remedy(silence: Silence) -> str:
    if silence.words == {"file"}:
        return "in a JSON Schema another file is named by `$ref: PATH`"
    if silence.words <= DEFINITIONS:
        return "name the part that is meant: `$ref: '#/$defs/NAME'`"
    meant = next(filter(None, map(_keyword_like, sorted(silence.words))), None)
    return f"did you mean `{meant}`?" if meant else "add one, such as `type`; `{}` allows anything"


@lru_cache(maxsize=256)
def _keyword_like(word: str) -> str | None:
    return closest(word, sorted(keywords()), 0.75)


def _place(subject: Subject, path: DocPath, message: str, remedy: str) -> Problem:
    """A problem at its place, which may be in a file that became a part of the schema."""
    warning = subject.warning(path, "no-keyword", message, remedy)
    for length in range(len(path), 0, -1):
        file = subject.source.included.get(path[:length])
        if file is not None:
            document = _document(file.text, file.file)
            span = warning.span if document is None else document.span(path[length:])
            return warning.replace(span=span)
    return warning


@lru_cache(maxsize=8)
def _document(text: str, file: str) -> Document | None:
    """A file with its places; None for JSON with tabs where YAML allows none."""
    with suppress(ProblemsFound):
        return read(text, file)
    return None


OF_REPORTS = ("map", "score")
"""Keys of a judge that read a report in JSON."""


def check_verdict_readings(subject: Subject) -> Iterator[Problem]:
    for placed in subject.rules:
        path, rule, reading = placed.path, placed.rule, placed.rule.verdict_reading
        if reading is None:
            continue
        yield from _two_readings(subject, path, rule)
        yield from ambiguous(subject, (*path, "verdict", "words"), reading.words)
        taken = (*(reading.words or ("PASS", "WARN", "FAIL")), *subject.machine.levels.levels)
        yield from ambiguous(subject, (*path, "verdict", "severities"), reading.severities, taken)
        yield from one_sided(subject, (*path, "verdict", "words"), reading.words)
        yield from _without_groups(subject, (*path, "verdict"), reading)


def _two_readings(subject: Subject, path: DocPath, rule: Rule) -> Iterator[Problem]:
    for key in OF_REPORTS if rule.asks is not None else ():
        if getattr(rule, key) is not None:
            message = f"`{key}` reads a report in JSON, and `verdict` reads text"
            remedy = "a judge answers in one form; delete the other key"
            yield subject.problem((*path, key), "two-readings", message, remedy, key=True)


def _without_groups(subject: Subject, path: DocPath, reading: VerdictReading) -> Iterator[Problem]:
    for place, written in (((*path, *at), text) for at, text in reading.patterns):
        pattern = subject.pattern(written)
        if pattern is None:
            continue
        if place[-1] == "findings":
            yield from _of_findings(subject, place, pattern)
        elif not pattern.groups:
            what = "word of the verdict" if place[-1] == "pattern" else "number"
            message = f"no group of this pattern captures the {what}"
            remedy = "put parentheses around it, as in `^Result: (PASS|FAIL)$`"
            yield subject.problem(place, "missing-group", message, remedy)


def _of_findings(subject: Subject, path: DocPath, pattern: Pattern[str]) -> Iterator[Problem]:
    for name in pattern.groupindex:
        if name not in GROUPS:
            message = f"a finding has no field `{name}`"
            remedy = did_you_mean(name, GROUPS)
            yield subject.problem(path, "unknown-group", message, remedy)
    if "message" not in pattern.groupindex:
        message = "no group of this pattern captures the message of a finding"
        remedy = "add a named group, as in `^- (?P<severity>PASS|FAIL): (?P<message>.+)$`"
        yield subject.problem(path, "missing-group", message, remedy)
