"""Conditions and paths of rules for data: syntax, with the codes of the guard language."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from loopkit.checks.subject import Subject
from loopkit.document.problems import Problem
from loopkit.language import AcyclicRule, LookupRule, RequireRule, Rule
from loopkit.language.guard import GuardError, parse_path, parse_requirement
from loopkit.machine.graph import DocPath

Reading = tuple[DocPath, str, Callable[[str], object]]
"""Where a text stands in its rule, the text, and what reads it."""


def check_requirements(subject: Subject) -> Iterator[Problem]:
    for placed in subject.rules:
        for at, text, read in _readings(placed.rule):
            yield from _unreadable(subject, (*placed.path, *at), text, read)


def _readings(rule: Rule) -> Iterator[Reading]:
    match rule:
        case RequireRule(require=condition, each=each):
            yield ("require",), condition, parse_requirement
            if each is not None:
                yield ("each",), each, parse_path
        case LookupRule(lookup=lookup):
            yield ("lookup", "path"), lookup.path, parse_path
            if lookup.at is not None:
                yield ("lookup", "at"), lookup.at, parse_path
        case AcyclicRule(acyclic=graph):
            yield ("acyclic", "nodes"), graph.nodes, parse_path
            yield ("acyclic", "edges"), graph.edges, parse_path


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
