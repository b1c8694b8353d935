"""Descriptions of a reply that is to be written: all its requirements."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from loopkit.checks.exits import fact_in_words
from loopkit.document.writing import inline
from loopkit.language import CommandRule, Rule, VerdictReading
from loopkit.language.facts import OF_PROGRESS, REGRESSED, VERDICT
from loopkit.language.guard.kleene import Held
from loopkit.machine.edges import Edge
from loopkit.validators.judges.form import words_for
from loopkit.validators.judges.report_form import ReportForm
from loopkit.validators.judges.text_form import DEFAULT_WORDS


def todo(head: str, lines: Iterable[str], **known: Any) -> dict[str, Any]:
    """A reply that is still to be written, with what is known of it."""
    return {
        **known,
        "todo": "\n".join([f"{head.rstrip('.')}.", *(f"- {line}" for line in lines)]) + "\n",
    }


def facts_in_words(row: Mapping[str, object]) -> Iterator[str]:
    """What guards read of some work, in words."""
    for name, value in row.items():
        if isinstance(value, Held):
            yield from (f"`{name}` has {inline(one)}" for one in sorted(value))
            yield from (f"`{name}` does not have {inline(one)}" for one in sorted(value.absent))
        else:
            yield fact_in_words(name, value)


def report_facts_in_words(row: Mapping[str, object]) -> Iterator[str]:
    """What guards read of a report besides its verdict; a standstill is described with the text."""
    facts = {name: row[name] for name in row if name not in (VERDICT, *OF_PROGRESS)}
    yield from facts_in_words(facts)
    if row.get(REGRESSED):
        yield "a finding comes back that was resolved a round before"


def guard_in_words(edge: Edge) -> str:
    return f"so that the guard `{edge.guard}` holds"


def rule_in_words(rule: Rule, patterns: Mapping[str, str]) -> str:
    """The wish of a rule for a text or data, with its code and the guard with which it applies."""
    wish = rule.wish(patterns)
    code = f" (code {inline(rule.code)})" if rule.code else ""
    return f"{wish}{code}" + (f", where {rule.guard}" if rule.guard else "")


def _pattern(pattern: str, patterns: Mapping[str, str]) -> str:
    return f"`{patterns.get(pattern, pattern)}`"


def schema_in_words(schema: Mapping[str, Any] | None) -> list[str]:
    return [] if schema is None else [f"its schema: {inline(schema)}"]


def report_in_words(form: ReportForm, verdict: str) -> Iterator[str]:
    """What a report in this form has to say for a verdict."""
    if form.has_verdict:
        yield f"`{form.verdict}` is {words_for(form.verdicts, verdict)}"
    findings, levels = f"`{form.parts.findings}`", form.levels
    if verdict == "pass":
        yield f"{findings} is []"
    else:
        severe, mild = levels.severe, levels.mild
        known = severe if verdict == "fail" else mild
        meant = words_for(form.severities, *known) if form.has_severity else ""
        severity = f"`{form.severity}` {meant} and " if meant else ""
        worse = ", and none that is worse" if verdict == "warn" else ""
        yield f"{findings} has one with {severity}a `{form.parts.message}`{worse}"
    for severity, path in form.parts.counts.items():
        yield f"`{path}` is the number of those with {inline(severity)}"
    if form.parts.met is not None:
        yield f"`{form.parts.met}` is `{form.parts.checked}`"
    yield from (f"`{path}` is true" for path in form.parts.checks)
    if form.score is not None:
        yield f"`{form.parts.score}` is from {form.score.min:g} to {form.score.max:g}"


def reading_in_words(
    reading: VerdictReading, verdict: str, patterns: Mapping[str, str]
) -> Iterator[str]:
    """What a text has to say for a verdict that is read from it."""
    words = words_for(reading.words or DEFAULT_WORDS, verdict)
    where = (
        f"as {_pattern(reading.pattern, patterns)}" if reading.pattern else "in a line by itself"
    )
    yield f"its verdict is {words}, {where}"
    if verdict != "pass":
        form = reading.findings and _pattern(reading.findings, patterns)
        yield f"a finding, {f'as {form}' if form else f'such as `- [{verdict.upper()}] text`'}"
    if reading.counts is not None:
        counts = (reading.counts.met, reading.counts.checked)
        met, checked = (_pattern(pattern, patterns) for pattern in counts)
        yield f"numbers of criteria met, as {met}, and checked, as {checked}"


def report_output_in_words(rule: CommandRule, verdict: str) -> Iterator[str]:
    """What the program of a rule has to print, if its exit code does not say it all."""
    where = "on stdout" if rule.file is None else f"in the file `{rule.file}`"
    yield f"its report stands {where}, in the form `{rule.parse}`"
    if rule.parse in ("lines", "junit", "sarif"):
        found = {"pass": "nothing", "warn": "a warning", "fail": "an error or a failure"}
        yield f"it tells of {found.get(verdict, 'nothing')}"


def rules_in_words(head: str, rules: Iterable[Rule], patterns: Mapping[str, str]) -> Iterator[str]:
    """The rules below a line about them; nothing where there are none."""
    lines = [f"  - {rule_in_words(rule, patterns)}" for rule in rules]
    if lines:
        yield "\n".join([f"{head}:", *lines])
