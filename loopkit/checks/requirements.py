"""Conditions and paths of rules for data: syntax, with the codes of the guard language."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from loopkit.checks.guards import place_fault
from loopkit.checks.subject import Subject
from loopkit.document.document import DocPath
from loopkit.document.problems import Problem
from loopkit.language.guard import GuardError, parse_path, parse_requirement


def check_requirements(subject: Subject) -> Iterator[Problem]:
    for placed in subject.rules:
        for at, text in placed.rule.conditions:
            yield from _unreadable(subject, (*placed.path, *at), text, parse_requirement)
        for at, text in placed.rule.paths:
            yield from _unreadable(subject, (*placed.path, *at), text, parse_path)


def _unreadable(
    subject: Subject, path: DocPath, text: str, read: Callable[[str], object]
) -> Iterator[Problem]:
    try:
        read(text)
    except GuardError as error:
        yield place_fault(subject, path, error.problem)
