"""`unknown-origin`, `bad-origin`, `origin-order`: a state named as an origin can't be one."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from loopkit.checks.subject import Subject
from loopkit.document.document import DocPath
from loopkit.document.problems import Problem, did_you_mean
from loopkit.language import ReportMap, WorkingState


def check_origins(subject: Subject) -> Iterator[Problem]:
    """`origins:`, and the origins that rules and transitions name."""
    machine = subject.machine
    for index, name in enumerate(machine.origins):
        yield from _check_origin(subject, name, ("origins", index))
    for index, (before, after) in enumerate(pairwise(machine.origins)):
        if not {before, after} <= machine.states.keys():
            continue
        if before == after or after not in subject.graph.reachable(before, back=False):
            message = f"no forward path leads from `{before}` to `{after}`"
            remedy = "list the origins in the order in which they work, each once"
            yield subject.source.problem(
                ("origins", index + 1), "origin-order", message, help=remedy
            )
    for path, name in _names_of_origins(subject):
        if name not in machine.origins:
            yield _unknown(subject, path, name)


def _check_origin(subject: Subject, name: str, path: DocPath) -> Iterator[Problem]:
    state = subject.machine.states.get(name)
    if state is None:
        message = f"there is no state `{name}`"
        remedy = did_you_mean(name, subject.machine.states)
        yield subject.source.problem(path, "bad-origin", message, help=remedy)
    elif not state.reads_feedback:
        message = f"`{name}` writes nothing that feedback could change"
        states = subject.machine.states.items()
        authors = ", ".join(f"`{one}`" for one, known in states if known.reads_feedback)
        remedy = f"name the states that are to fix what is found: {authors or 'none does'}"
        yield subject.source.problem(path, "bad-origin", message, help=remedy)


def _names_of_origins(subject: Subject) -> Iterator[tuple[DocPath, str]]:
    for placed in subject.rules:
        for origin in placed.rule.origin:
            yield (*placed.path, "origin"), origin
        if placed.rule.report_map is not None:
            yield from _names_in_map((*placed.path, "map"), placed.rule.report_map)
    for name, state in subject.machine.states_of(WorkingState).items():
        for index, transition in enumerate(state.transitions or ()):
            for origin in transition.origins:
                yield ("states", name, "transitions", index, "revise", "origin"), origin


def _names_in_map(path: DocPath, read: ReportMap) -> Iterator[tuple[DocPath, str]]:
    for word, states in read.origins.items():
        yield from (((*path, "origins", word), state) for state in states)
    for at, check in read.checks.items():
        yield from (((*path, "checks", at, "origin"), state) for state in check.origin)


def _unknown(subject: Subject, path: DocPath, name: str) -> Problem:
    declared = subject.machine.origins
    if not declared:
        message = f"`{name}` is no origin: the machine declares none"
        remedy = f"add `origins: [{name}]` at the top, with all states that can inject a defect"
    else:
        message = f"`{name}` is not among the origins"
        remedy = did_you_mean(name, declared) or "add it to `origins` at the top"
    return subject.source.problem(path, "unknown-origin", message, help=remedy)
