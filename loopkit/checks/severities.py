"""`unknown-severity`, `too-large-quorum`, `no-effect`: severities, and rules that count reports."""

from __future__ import annotations

from collections.abc import Iterator

from loopkit.checks.subject import Subject
from loopkit.document.document import DocPath
from loopkit.document.problems import Problem, did_you_mean
from loopkit.language import ReportMap, ValidateState
from loopkit.language.machine import NO_FINDING
from loopkit.text import plural
from loopkit.validators.judges.form import fold


def check_severities(subject: Subject) -> Iterator[Problem]:
    """The severities of rules, of maps and of `block:`."""
    for placed in subject.rules:
        if placed.rule.severity is not None:
            yield from _level(subject, (*placed.path, "severity"), placed.rule.severity)
        if placed.rule.report_map is not None:
            yield from _of_map(subject, (*placed.path, "map"), placed.rule.report_map)
    for name, state in subject.judges.items():
        if state.block is not None:
            yield from _level(subject, ("states", name, "block"), state.block)


def _of_map(subject: Subject, path: DocPath, read: ReportMap) -> Iterator[Problem]:
    for word, level in read.severities.items():
        if level != NO_FINDING:
            yield from _level(subject, (*path, "severities", word), level)
    for at, check in read.checks.items():
        if check.severity is not None:
            yield from _level(subject, (*path, "checks", at, "severity"), check.severity)
    known = (*read.severities, *subject.machine.severities)
    for counted in read.counts:
        if counted not in known and fold(counted) not in map(fold, read.severities):
            message = f"no severity of a report is called `{counted}`"
            remedy = did_you_mean(counted, known)
            place = (*path, "counts", counted)
            yield subject.source.problem(place, "unknown-severity", message, help=remedy, key=True)


def check_counting(subject: Subject) -> Iterator[Problem]:
    """`quorum`, `combine`, `merge` and `settle_after` of each validate state."""
    for name, state in subject.judges.items():
        judges = sum(rule.asks is not None for rule in subject.graph.rules_at(name))
        if state.quorum is not None and state.quorum > judges:
            message = f"{plural(state.quorum, 'judge')} have to answer, and {_judges_text(judges)}"
            path = ("states", name, "quorum")
            yield subject.source.problem(path, "too-large-quorum", message, help="lower it")
        if state.combine == "majority" and judges < 3:
            message = f"nobody can be outvoted: {_judges_text(judges)}"
            yield subject.no_effect(("states", name, "combine"), message)
        if state.merge is not None and judges < 2:
            message = f"there is nothing to merge: {_judges_text(judges)}"
            yield subject.no_effect(("states", name, "merge"), message)
        if state.settle_after is not None and not _settles(subject, state):
            message = "only the worst severity blocks here, and that blocks after any round"
            yield subject.no_effect(("states", name, "settle_after"), message)


def _settles(subject: Subject, state: ValidateState) -> bool:
    levels = subject.machine.levels.blocking_from(state.block)
    return any(levels.blocks(level) for level in levels.levels[1:])


def _judges_text(judges: int) -> str:
    return f"only {plural(judges, 'judge')} can be asked" if judges else "no judge is asked"


def _level(subject: Subject, path: DocPath, level: str) -> Iterator[Problem]:
    known = subject.machine.severities
    if level not in known:
        remedy = did_you_mean(level, known) or f"one of {', '.join(known)}"
        message = f"there is no severity `{level}`"
        yield subject.source.problem(path, "unknown-severity", message, help=remedy)
