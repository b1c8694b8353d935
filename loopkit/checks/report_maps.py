"""Checks of how reports and texts are read: `map`, `verdict`, patterns and schemas.

`bad-path`, `empty`, `form-untold`, `unknown-field`, `unknown-word`, `bad-word`, `one-sided`,
`bad-pattern`, `unknown-pattern`, `empty-range`, `missing-group`, `unknown-group`, `two-readings`,
`no-keyword`, `no-effect`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import unquote

from loopkit.checks.references import is_plain_id
from loopkit.checks.subject import Found, Subject, Texts, of_machine, of_rules
from loopkit.document.document import DocPath, Document
from loopkit.document.problems import Problem, ProblemsFound, Severity, closest, did_you_mean
from loopkit.document.reading import read
from loopkit.language.bundling import schemas_in
from loopkit.language.datatypes.datatype import DataType
from loopkit.language.datatypes.notation import parse_fields
from loopkit.language.json_schema import DEFINITIONS, Silence, keywords, silent_parts
from loopkit.language.section import WAITS, ErrorRule
from loopkit.language.template.errors import TemplateError
from loopkit.language.validators import MatchesRule, Rule
from loopkit.language.validators.command import CommandRule
from loopkit.language.validators.judge import JudgeRule
from loopkit.language.validators.report_map import GROUPS, ReportMap
from loopkit.language.validators.rule import RuleBase
from loopkit.proof.outcomes.analysis import PlacedRule
from loopkit.text import fold
from loopkit.text.patterns import PatternError, compile_pattern
from loopkit.values import Value

if TYPE_CHECKING:
    from regex import Pattern

    from loopkit.validators.judges.form import ReportForm

OF_BOOLS = '; a bool\'s are "true" and "false"'
TABLES = ("verdicts", "severities", "codes", "origins")


@of_rules(RuleBase)
def check_report_maps(subject: Subject, placed: PlacedRule[Rule]) -> Found:
    rule, path, read = placed.rule, (*placed.path, "map"), placed.rule.report_map
    if read is None:
        return
    judge = rule.judge if isinstance(rule, JudgeRule) and rule.prompt is None else ""
    if judge in subject.machine.agents and subject.machine.agents[judge].schema_ is None:
        message = "nothing tells this judge to answer in the form that `map` reads"
        remedy = f"give the agent `{judge}` a `schema:`, or write a `prompt:` here "
        remedy += "that says how to answer"
        yield subject.problem(path, "form-untold", message, remedy)
    if read == ReportMap():
        message = "`map` maps nothing, so it has no effect"
        remedy = "name the parts that have other names in the report, such as `findings: issues`"
        yield subject.problem(path, "empty", message, remedy)
    verdict, findings = read.verdict, read.findings
    if verdict is not None and (_leads_into(verdict, findings) or _leads_into(findings, verdict)):
        message = f"`{verdict}` cannot be the verdict where `{findings}` is the list of findings"
        remedy = "name the field whose value is the word of the verdict"
        yield subject.problem((*path, "verdict"), "bad-path", message, remedy)
    for table in TABLES:
        yield from ambiguous(subject, (*path, table), getattr(read, table))
    yield from one_sided(subject, (*path, "verdicts"), read.verdicts, OF_BOOLS)
    if read.origin is not None and not subject.machine.origins:
        message = "`origin` is not read: the machine declares no `origins`"
        yield subject.no_effect((*path, "origin"), message)


def _leads_into(outer: str, inner: str) -> bool:
    return f"{inner}.".startswith(f"{outer}.")


def ambiguous(
    subject: Subject, path: DocPath, words: Mapping[str, object], taken: Sequence[str] = ()
) -> Found:
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
        yield subject.problem((*path, word), "bad-word", message, remedy)


def one_sided(subject: Subject, path: DocPath, words: Mapping[str, str], more: str = "") -> Found:
    accepts, rejects = not {"pass", "warn"}.isdisjoint(words.values()), "fail" in words.values()
    if words and not (accepts and rejects):
        only, lacking = ("reject", "accept") if rejects else ("accept", "reject")
        message = f"with these words the judge can only {only}"
        remedy = f"add the word with which it would {lacking}{more}"
        yield subject.problem(path, "one-sided", message, remedy)


@of_machine()
def check_patterns(subject: Subject) -> Found:
    """Those under `patterns:`, in rules, in `fields:` of an output and in `errors:` of an agent."""
    named = subject.machine.patterns
    for name, pattern in named.items():
        yield from _pattern(subject, ("patterns", name), pattern)
    for path, pattern in pattern_places(subject):
        if pattern in named:
            continue
        yield from _pattern(subject, path, pattern)
        near = closest(pattern, named) if is_plain_id(pattern) else None
        if near is not None:
            message = f"there is no pattern `{pattern}`, so this looks for the word itself"
            yield subject.problem(path, "unknown-pattern", message, f"did you mean `{near}`?")
    agents = subject.machine.agents.items()
    placed: list[tuple[DocPath, tuple[ErrorRule, ...]]] = [
        *((("agents", name), agent.error_rules) for name, agent in agents),
        *((placed.path, placed.rule.errors) for placed in subject.rules_of(CommandRule)),
    ]
    for path, index, rule in ((p, i, r) for p, errors in placed for i, r in enumerate(errors)):
        for key, text in (("stderr", rule.stderr), ("stdout", rule.stdout)):
            if text is not None:
                at = (*path, "errors", index, key)
                yield from [*_pattern(subject, at, text)] or _groups(subject, at, text)


def pattern_places(subject: Subject) -> Texts:
    """Every place where a pattern, or the name of one, is written."""
    for placed in subject.rules:
        yield from (((*placed.path, *at), pattern) for at, pattern in placed.rule.patterns)
    for name, state in subject.states.items():
        output = state.output_at(name)
        for field, how in output.fields.items() if output is not None else ():
            for key in ("match", "all", "count"):
                if pattern := getattr(how, key, ""):
                    yield ("states", name, "output", "fields", field, key), pattern


def _pattern(subject: Subject, path: DocPath, pattern: str) -> Found:
    try:
        compile_pattern(pattern)
    except PatternError as error:
        before = pattern[: error.position or 0].split("\n")
        message = f"this is not a regular expression: {error.reason}"
        remedy = "to match such a character literally, put a backslash before it: "
        remedy += "`\\(`, `\\[`, `\\*`"
        at, column = len(before), len(before[-1]) + 1
        yield subject.fault(path, TemplateError("bad-pattern", message, at, column, help=remedy))


def _groups(subject: Subject, path: DocPath, pattern: str) -> Found:
    """The groups of a pattern under `errors:`, which say when to go on."""
    for name in sorted(compile_pattern(pattern).groupindex.keys() - WAITS):
        near = closest(name, sorted(WAITS))
        remedy = f"did you mean `{near}`?" if near else "write `(?:…)`"
        yield subject.no_effect(path, f"nothing reads the group `{name}`", remedy)


@of_rules(MatchesRule)
def check_counts(subject: Subject, placed: PlacedRule[MatchesRule]) -> Found:
    least, most = placed.rule.count.min, placed.rule.count.max
    if most is not None and least > most:
        message = f"no count is at least {least} and at most {most}"
        remedy = "swap them" if most else "use `not_matches:` for what must not match"
        yield subject.problem((*placed.path, "count"), "empty-range", message, remedy)


KINDS: Mapping[str, Callable[[DataType], bool]] = {
    "a single word": lambda found: found.fields is None and found.items is None,
    # A text stands for one finding.
    "a list": lambda found: found.items is not None or (found.scalar == "str" and not found.values),
    "a number": lambda found: found.scalar in ("int", "num"),
    "true or false": lambda found: found.scalar == "bool",
}
TOLD = {"a single word": "the field that is the verdict", "a list": "the list of findings"}
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

    def problem(self, at: DocPath, code: str, message: str, remedy: str) -> Problem:
        """A problem at a place in the map, or at the map where that is not written."""
        path = (*self.path, *at) if self.is_written(at[0]) else self.path
        key = path == self.path or at[0] == "checks"
        return self.subject.problem(path, code, message, remedy, key=key)

    def is_written(self, key: str | int) -> bool:
        return bool(getattr(self.form.parts, str(key)) != getattr(ReportMap(), str(key)))


@of_rules(JudgeRule)
def check_report_schemas(subject: Subject, placed: PlacedRule[JudgeRule]) -> Found:
    rule, machine = placed.rule, subject.machine
    agent = machine.agents.get(rule.judge)
    if rule.map is not None and agent is not None and agent.schema_:
        # What reads reports is not loaded for a machine without a map.
        from loopkit.validators.judges.form import report_form_of  # noqa: PLC0415

        form = report_form_of(rule, agent, machine.levels, machine.origins)
        report = parse_fields(agent.schema_)
        fit = _Fit(subject, (*placed.path, "map"), rule.judge, form, report)
        for at, written, kind in _parts(fit):
            yield from _part(fit, at, written, kind)
        if isinstance(verdict := _at(report, form.verdict), DataType):
            yield from _words(fit, "verdicts", verdict, form.verdicts)
        findings = _at(report, form.parts.findings)
        if isinstance(findings, DataType) and findings.items is not None:
            yield from _of_item(fit, findings.items)


def _parts(fit: _Fit) -> Iterator[tuple[DocPath, str, str]]:
    """Every part of a report that the map reads: its place, its path and what it has to be."""
    form, parts = fit.form, fit.form.parts
    if form.has_verdict or isinstance(_at(fit.report, form.verdict), DataType):
        yield ("verdict",), form.verdict, "a single word"
    yield ("findings",), parts.findings, "a list"
    numbers: dict[DocPath, str | None] = {("met",): parts.met, ("checked",): parts.checked}
    numbers |= {("counts", severity): path for severity, path in parts.counts.items()}
    yield from ((at, path, "a number") for at, path in numbers.items() if path is not None)
    yield from ((("checks", path), path, "true or false") for path in parts.checks)


def _part(fit: _Fit, at: DocPath, path: str, kind: str) -> Found:
    found = _at(fit.report, path)
    if isinstance(found, tuple):
        yield _no_field(fit, at, path, found)
    elif found is not None and not _is_open(found) and not KINDS[kind](found):
        message = f"`{path}` is not {kind} in the schema of `{fit.judge}`"
        remedy = f"name {TOLD.get(kind, f'a field that is {kind}')}"
        yield fit.problem(at, "bad-path", message, remedy)


def _is_open(found: DataType) -> bool:
    """Whether a JSON Schema says nothing of the type."""
    return found.scalar is None and found.fields is None and found.items is None


def _of_item(fit: _Fit, item: DataType) -> Found:
    if item.fields is None:
        return
    required = {"message", *(["severity"] if fit.form.has_severity else [])}
    for key in OF_FINDINGS:
        path: str | None = getattr(fit.form if key in OF_FORM else fit.form.parts, key)
        found = None if path is None else _at(item, path)
        if path and isinstance(found, tuple) and (key in required or fit.is_written(key)):
            yield _no_field(fit, (key,), path, found)
    if isinstance(severity := _at(item, fit.form.severity), DataType):
        yield from _words(fit, "severities", severity, fit.form.severities)
    origin = None if fit.form.origin is None else _at(item, fit.form.origin)
    if isinstance(origin, DataType):
        yield from _words(fit, "origins", origin.items or origin, fit.form.origin_words)


def _words(fit: _Fit, table: str, datatype: DataType, words: Mapping[str, object]) -> Found:
    """Words that the schema allows and the table does not know, and vice versa."""
    allowed = ("true", "false") if datatype.scalar == "bool" else datatype.values
    if not allowed:
        # They cannot be listed.
        return
    known = {fold(word) for word in words}
    unknown = ", ".join(f"`{word}`" for word in allowed if fold(word) not in known)
    if unknown:
        message = f"`{table}` does not know {unknown}, which the schema of `{fit.judge}` allows"
        yield fit.problem((table,), "unknown-word", message, f"say under `{table}:` what it means")
    for word in (word for word in getattr(fit.form.parts, table) if word not in allowed):
        near = next((one for one in allowed if fold(one) == fold(word)), None)
        message = f"the schema of `{fit.judge}` does not allow `{word}` there"
        remedy = f"write it as there: `{near}`" if near else did_you_mean(word, allowed)
        severity: Severity = "warning" if near else "error"
        at = (*fit.path, table, word)
        yield fit.subject.problem(at, "unknown-word", message, remedy, severity=severity)


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


def _no_field(fit: _Fit, at: DocPath, path: str, choices: tuple[str, ...]) -> Problem:
    where = "a finding in the schema" if at[0] in OF_FINDINGS else "the schema"
    message = f"{where} of `{fit.judge}` has no field `{path}`"
    near = did_you_mean(path, choices)
    remedy = near if fit.is_written(at[0]) else f"add `{at[0]}:` with its path; {near}"
    return fit.problem(at, "unknown-field", message, remedy.removesuffix("; "))


_DATA = "a file of data is the default of an input: `{type: {...: any}, default: {file: %s}}`"


@of_machine()
def check_silent_schemas(subject: Subject) -> Found:
    machine = json.loads(subject.loaded.resolved)["machine"]
    silences = ((path, one) for path, schema in schemas_in(machine) for one in silent_parts(schema))
    for path, silence in silences:
        here, remedy = (*path, *silence.steps), _remedy(silence)
        message = "this JSON Schema has no keyword, so it allows anything"
        if here in subject.source.included:
            name = unquote(str(here[-1]))
            here = (*path, *silence.referred_from)
            message = f"`{name}` has no keyword of JSON Schema, so it allows anything"
            remedy = _DATA % name
            if silence.words <= DEFINITIONS:
                remedy = f"name one of its parts: `$ref: {name}#/$defs/NAME`"
        yield _placed(subject, subject.problem(here, "no-keyword", message, remedy), here)


def _remedy(silence: Silence) -> str:
    if silence.words == {"file"}:
        return "in a JSON Schema another file is named by `$ref: PATH`"
    near = (closest(word, sorted(keywords()), 0.75) for word in sorted(silence.words))
    meant = next(filter(None, near), None)
    return f"did you mean `{meant}`?" if meant else "add one, such as `type`; `{}` allows anything"


def _placed(subject: Subject, problem: Problem, path: DocPath) -> Problem:
    """A problem at its place, which may be in a file that became a part of the schema."""
    for length in range(len(path), 0, -1):
        file = subject.source.included.get(path[:length])
        if file is not None:
            document = _document(file.text, file.file)
            return problem.replace(span=document.span(path[length:])) if document else problem
    return problem


def _document(text: str, file: str) -> Document | None:
    """A file with its places; None for JSON with tabs where YAML allows none."""
    with suppress(ProblemsFound):
        return read(text, file)
    return None


OF_REPORTS = ("map", "score")
"""Keys of a judge that read a report in JSON."""


@of_rules(RuleBase)
def check_verdict_readings(subject: Subject, placed: PlacedRule[Rule]) -> Found:
    path, rule, reading = placed.path, placed.rule, placed.rule.verdict_reading
    if reading is None:
        return
    for key in OF_REPORTS if rule.asks is not None else ():
        if getattr(rule, key) is not None:
            message = f"`{key}` reads a report in JSON, and `verdict` reads text"
            remedy = "a judge answers in one form; delete the other key"
            yield subject.problem((*path, key), "two-readings", message, remedy)
    path = (*path, "verdict")
    taken = (*(reading.words or ("PASS", "WARN", "FAIL")), *subject.machine.levels.levels)
    yield from ambiguous(subject, (*path, "words"), reading.words)
    yield from ambiguous(subject, (*path, "severities"), reading.severities, taken)
    yield from one_sided(subject, (*path, "words"), reading.words)
    for at, written in reading.patterns:
        pattern, place = subject.pattern(written), (*path, *at)
        if pattern is not None and place[-1] == "findings":
            yield from _of_findings(subject, place, pattern)
        elif pattern is not None and not pattern.groups:
            what = "word of the verdict" if place[-1] == "pattern" else "number"
            message = f"no group of this pattern captures the {what}"
            remedy = "put parentheses around it, as in `^Result: (PASS|FAIL)$`"
            yield subject.problem(place, "missing-group", message, remedy)


def _of_findings(subject: Subject, path: DocPath, pattern: Pattern[str]) -> Found:
    for name in pattern.groupindex:
        if name not in GROUPS:
            yield subject.unknown(path, "unknown-group", "a finding has no field", name, GROUPS)
    if "message" not in pattern.groupindex:
        message = "no group of this pattern captures the message of a finding"
        remedy = "add a named group, as in `^- (?P<severity>PASS|FAIL): (?P<message>.+)$`"
        yield subject.problem(path, "missing-group", message, remedy)
