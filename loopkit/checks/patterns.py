"""`bad-pattern`, `unknown-pattern`, `empty-range`: patterns and counts that can't be used."""

from __future__ import annotations

from collections.abc import Iterator

from loopkit.checks.references import is_plain_id
from loopkit.checks.subject import Subject
from loopkit.document.document import DocPath
from loopkit.document.problems import Problem, closest
from loopkit.language import (
    CommandRule,
    ErrorRule,
    MatchesRule,
)
from loopkit.language.agents.calls import WAITS
from loopkit.language.states.output import ExtractAll, ExtractCount, ExtractMatch
from loopkit.text.patterns import PatternError, compile_pattern


def check_patterns(subject: Subject) -> Iterator[Problem]:
    """Those under `patterns:`, in rules, in `fields:` of an output and in `errors:` of an agent."""
    named = subject.machine.patterns
    for name, pattern in named.items():
        yield from _pattern(subject, ("patterns", name), pattern)
    for path, pattern in pattern_places(subject):
        if pattern not in named:
            yield from _pattern(subject, path, pattern)
            yield from _misspelt(subject, path, pattern)
    for path, pattern in _error_patterns(subject):
        faults = list(_pattern(subject, path, pattern))
        yield from faults or _groups(subject, path, pattern)


def pattern_places(subject: Subject) -> Iterator[tuple[DocPath, str]]:
    """Every place where a pattern, or the name of one, is written."""
    for placed in subject.rules:
        yield from (((*placed.path, *at), pattern) for at, pattern in placed.rule.patterns)
    yield from _of_outputs(subject)


def _of_outputs(subject: Subject) -> Iterator[tuple[DocPath, str]]:
    for name, state in subject.machine.states.items():
        output = state.output_at(name)
        for field, how in output.fields.items() if output is not None else ():
            path: DocPath = ("states", name, "output", "fields", field)
            match how:
                case ExtractMatch(match=pattern):
                    yield (*path, "match"), pattern
                case ExtractAll(all=pattern):
                    yield (*path, "all"), pattern
                case ExtractCount(count=pattern):
                    yield (*path, "count"), pattern


def _error_patterns(subject: Subject) -> Iterator[tuple[DocPath, str]]:
    for path, errors in _error_rules(subject):
        for index, rule in enumerate(errors):
            for key, pattern in (("stderr", rule.stderr), ("stdout", rule.stdout)):
                if pattern is not None:
                    yield (*path, "errors", index, key), pattern


def _error_rules(subject: Subject) -> Iterator[tuple[DocPath, tuple[ErrorRule, ...]]]:
    for name, agent in subject.machine.agents.items():
        yield ("agents", name), agent.error_rules
    for placed in subject.rules_of(CommandRule):
        yield placed.path, placed.rule.errors


def _pattern(subject: Subject, path: DocPath, pattern: str) -> Iterator[Problem]:
    try:
        compile_pattern(pattern)
    except PatternError as error:
        before = pattern[: error.position or 0]
        message = f"this is not a regular expression: {error.reason}"
        remedy = (
            "to match such a character literally, put a backslash before it: `\\(`, `\\[`, `\\*`"
        )
        line, column = before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1
        yield subject.source.problem_inside(
            path, "bad-pattern", message, help=remedy, line=line, column=column
        )


def _groups(subject: Subject, path: DocPath, pattern: str) -> Iterator[Problem]:
    """The groups of a pattern under `errors:`, which say when to go on."""
    for name in sorted(compile_pattern(pattern).groupindex.keys() - WAITS):
        near = closest(name, sorted(WAITS))
        remedy = f"did you mean `{near}`?" if near else "write `(?:…)`"
        yield subject.no_effect(path, f"nothing reads the group `{name}`", remedy)


def _misspelt(subject: Subject, path: DocPath, pattern: str) -> Iterator[Problem]:
    near = closest(pattern, subject.machine.patterns) if is_plain_id(pattern) else None
    if near is not None:
        message = f"there is no pattern `{pattern}`, so this looks for the word itself"
        remedy = f"did you mean `{near}`?"
        yield subject.source.problem(
            path, "unknown-pattern", message, help=remedy, severity="warning"
        )


def check_counts(subject: Subject) -> Iterator[Problem]:
    """A range of counts has room for at least one."""
    for placed in subject.rules_of(MatchesRule):
        least, most = placed.rule.count.min, placed.rule.count.max
        if most is not None and least > most:
            message = f"no count is at least {least} and at most {most}"
            remedy = "swap them" if most else "use `not_matches:` for what must not match"
            path = (*placed.path, "count")
            yield subject.source.problem(path, "empty-range", message, help=remedy)
