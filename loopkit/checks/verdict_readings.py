"""`missing-group`, `unknown-group`, `two-readings`: `verdict:` can't read the answer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from loopkit.checks.subject import Subject
from loopkit.checks.word_tables import ambiguous, one_sided
from loopkit.document.document import DocPath
from loopkit.document.problems import Problem, did_you_mean
from loopkit.language import Rule, VerdictReading
from loopkit.language.validators.verdict import GROUPS

if TYPE_CHECKING:
    from regex import Pattern


OF_REPORTS = ("map", "score")
"""Keys of a judge that read a report in JSON."""


def check_verdict_readings(subject: Subject) -> Iterator[Problem]:
    """Each `verdict:` of a rule by itself, and together with other readings of the answer."""
    for placed in subject.rules:
        path, rule, reading = placed.path, placed.rule, placed.rule.verdict_reading
        if reading is None:
            continue
        yield from _two_readings(subject, path, rule)
        yield from ambiguous(subject, (*path, "verdict", "words"), reading.words)
        yield from one_sided(subject, (*path, "verdict", "words"), reading.words)
        yield from _without_groups(subject, (*path, "verdict"), reading)


def _two_readings(subject: Subject, path: DocPath, rule: Rule) -> Iterator[Problem]:
    for key in OF_REPORTS if rule.asks is not None else ():
        if getattr(rule, key) is not None:
            yield subject.source.problem(
                (*path, key),
                "two-readings",
                f"`{key}` reads a report in JSON, and `verdict` reads text",
                help="a judge answers in one form; delete the other key",
                key=True,
            )


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
            yield subject.source.problem(place, "missing-group", message, help=remedy)


def _of_findings(subject: Subject, path: DocPath, pattern: Pattern[str]) -> Iterator[Problem]:
    for name in pattern.groupindex:
        if name not in GROUPS:
            message = f"a finding has no field `{name}`"
            remedy = did_you_mean(name, GROUPS)
            yield subject.source.problem(path, "unknown-group", message, help=remedy)
    if "message" not in pattern.groupindex:
        message = "no group of this pattern captures the message of a finding"
        remedy = "add a named group, as in `^- (?P<severity>PASS|FAIL): (?P<message>.+)$`"
        yield subject.source.problem(path, "missing-group", message, help=remedy)
