"""`unknown-field`, `unknown-word`, `bad-path`: a `map` does not fit its agent's `schema:`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from loopkit.checks.report_maps import Mapped, judges_with_map
from loopkit.checks.subject import Subject
from loopkit.document.document import DocPath
from loopkit.document.problems import Problem, did_you_mean
from loopkit.language import ReportMap
from loopkit.language.datatypes import DataType, parse_fields
from loopkit.validators.judges.form import fold
from loopkit.values import Value

if TYPE_CHECKING:
    from loopkit.validators.judges.report_form import ReportForm


KINDS = {"a number": ("int", "num"), "true or false": ("bool",)}
"""The types of the numbers and the checks of a report."""
OF_FINDINGS = ("message", "severity", "code", "key", "origin", "location", "line")


class _Fit(Value, frozen=True):
    """One map, compared with one declared report."""

    subject: Subject
    mapped: Mapped
    form: ReportForm
    report: DataType

    @property
    def judge(self) -> str:
        return self.mapped.rule.judge

    def problem(self, key: str, code: str, message: str, remedy: str) -> Problem:
        """A problem at a key of the map, or at the map where the key is not written."""
        written = self.is_written(key)
        path = (*self.mapped.path, key) if written else self.mapped.path
        return self.subject.source.problem(path, code, message, help=remedy, key=not written)

    def is_written(self, key: str) -> bool:
        """Whether a key is written in the map."""
        return bool(getattr(self.mapped.map, key) != getattr(ReportMap(), key))


def check_report_schemas(subject: Subject) -> Iterator[Problem]:
    """The paths of a map lead to fields of the schema, and its tables know all words there."""
    for mapped in judges_with_map(subject):
        agent = subject.machine.agents.get(mapped.rule.judge)
        if agent is not None and agent.schema_:
            from loopkit.validators.judges.forms import report_form_of  # noqa: PLC0415 - few are

            machine = subject.machine
            form = report_form_of(mapped.rule, agent, machine.levels, machine.origins)
            fit = _Fit(subject, mapped, form, parse_fields(agent.schema_))
            yield from _verdict(fit)
            yield from _findings(fit)
            yield from _results(fit)


def _verdict(fit: _Fit) -> Iterator[Problem]:
    found = _at(fit.report, fit.form.verdict)
    if isinstance(found, _Unknown) and fit.form.has_verdict:
        yield _no_field(fit, "verdict", fit.form.verdict, found)
    elif isinstance(found, DataType) and (found.fields is not None or found.items is not None):
        message = f"`{fit.form.verdict}` is not a single word in the schema of `{fit.judge}`"
        yield fit.problem("verdict", "bad-path", message, "name the field that is the verdict")
    elif isinstance(found, DataType):
        yield from _words(fit, "verdicts", found, fit.form.verdicts)


def _findings(fit: _Fit) -> Iterator[Problem]:
    path = fit.form.parts.findings
    found = _at(fit.report, path)
    if isinstance(found, _Unknown):
        yield _no_field(fit, "findings", path, found)
    elif found is not None and found.items is not None:
        yield from _of_item(fit, found.items)
    elif found is not None and _is_none(found):
        message = f"`{path}` is not a list in the schema of `{fit.judge}`"
        yield fit.problem("findings", "bad-path", message, "name the list of findings")


def _is_none(found: DataType) -> bool:
    """Whether it is neither a list nor a text that stands for one finding."""
    is_text = found.scalar == "str" and not found.values
    return found.fields is not None or (found.scalar is not None and not is_text)


def _results(fit: _Fit) -> Iterator[Problem]:
    """The numbers and the checks of a report."""
    parts = fit.form.parts
    for key, path in (("met", parts.met), ("checked", parts.checked)):
        if path is not None:
            yield from _result(fit, (key,), path, "a number")
    for severity, path in parts.counts.items():
        yield from _result(fit, ("counts", severity), path, "a number")
    for path in parts.checks:
        yield from _result(fit, ("checks", path), path, "true or false")


def _result(fit: _Fit, at: DocPath, path: str, kind: str) -> Iterator[Problem]:
    found = _at(fit.report, path)
    place, is_key = (*fit.mapped.path, *at), at[0] == "checks"
    if isinstance(found, _Unknown):
        message = f"the schema of `{fit.judge}` has no field `{path}`"
        remedy = did_you_mean(path, found.choices)
        yield fit.subject.source.problem(place, "unknown-field", message, help=remedy, key=is_key)
    elif found is not None and _is_other(found, kind):
        message = f"`{path}` is not {kind} in the schema of `{fit.judge}`"
        remedy = f"name a field that is {kind}"
        yield fit.subject.source.problem(place, "bad-path", message, help=remedy, key=is_key)


def _is_other(found: DataType, kind: str) -> bool:
    is_known = found.scalar is not None or found.fields is not None or found.items is not None
    return is_known and found.scalar not in KINDS[kind]


def _of_item(fit: _Fit, item: DataType) -> Iterator[Problem]:
    if item.fields is None:
        return
    required = {"message", *(["severity"] if fit.form.has_severity else [])}
    for key in OF_FINDINGS:
        path = _path_of(fit.form, key)
        found = None if path is None else _at(item, path)
        if path and isinstance(found, _Unknown) and (key in required or fit.is_written(key)):
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


def _path_of(form: ReportForm, key: str) -> str | None:
    if key in ("severity", "origin"):
        return form.severity if key == "severity" else form.origin
    path: str | None = getattr(form.parts, key)
    return path


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
            yield _misspelt(fit, table, word, allowed)


def _misspelt(fit: _Fit, table: str, word: str, allowed: Sequence[str]) -> Problem:
    """A word that no report can have, or that the schema spells differently."""
    near = next((one for one in allowed if fold(one) == fold(word)), None)
    return fit.subject.source.problem(
        (*fit.mapped.path, table, word),
        "unknown-word",
        f"the schema of `{fit.judge}` does not allow `{word}` there",
        help=f"write it as there: `{near}`" if near else did_you_mean(word, allowed),
        severity="warning" if near else "error",
        key=True,
    )


def _possible_words(datatype: DataType) -> tuple[str, ...]:
    """The words that a report can have there; empty if they cannot be listed."""
    words = ("true", "false") if datatype.scalar == "bool" else datatype.values
    # An optional value that is left out is null.
    return (*words, "null") if words and datatype.optional else words


class _Unknown(Value, frozen=True):
    """A step that leads nowhere."""

    choices: tuple[str, ...]


def _at(datatype: DataType, path: str) -> DataType | _Unknown | None:
    """The type at a path; None if the JSON Schema leaves it open."""
    found: DataType = datatype
    before: list[str] = []
    for step in path.split("."):
        if found.fields is None:
            return None if found.scalar is None and found.items is None else _Unknown(())
        known = found.field(step)
        if known is None:
            return _Unknown(tuple(".".join([*before, name]) for name in found.fields))
        found = known
        before.append(step)
    return found


def _no_field(fit: _Fit, key: str, path: str, unknown: _Unknown) -> Problem:
    where = "the schema" if key in ("verdict", "findings") else "a finding in the schema"
    message = f"{where} of `{fit.judge}` has no field `{path}`"
    near = did_you_mean(path, unknown.choices)
    remedy = near if fit.is_written(key) else f"add `{key}:` with its path; {near}"
    return fit.problem(key, "unknown-field", message, remedy.removesuffix("; "))
