"""Conditions and paths of `require:` rules can be read."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from loopkit.checks.subject import Subject
from loopkit.definition import RequireRule
from loopkit.graph import DocPath
from loopkit.guard import GuardError, parse_path, parse_requirement
from loopkit.problems import Problem


def check_requirements(subject: Subject) -> Iterator[Problem]:
    for placed in subject.rules:
        if isinstance(placed.rule, RequireRule):
            path = (*placed.path, "require")
            yield from _unreadable(subject, path, placed.rule.require, parse_requirement)
            if placed.rule.each is not None:
                path = (*placed.path, "each")
                yield from _unreadable(subject, path, placed.rule.each, parse_path)


def _unreadable(
    subject: Subject, path: DocPath, text: str, read: Callable[[str], object]
) -> Iterator[Problem]:
    try:
        read(text)
    except GuardError as error:
        fault = error.problem
        yield subject.source.problem_inside(
            path,
            fault.code,
            fault.message,
            help=fault.help,
            column=fault.column,
            length=fault.length,
        )
