"""Guards of transitions and rules: syntax, names and types, with the codes of the guard language.

`unknown-name` gets its remedy here: the place where the name is known.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from loopkit.checks.guard_remedies import remedy_for
from loopkit.checks.subject import Subject
from loopkit.document.document import DocPath
from loopkit.document.problems import Problem
from loopkit.language.facts import BOOL
from loopkit.language.guard import Guard, GuardProblem, GuardType, check
from loopkit.machine.known import over
from loopkit.proof.outcomes import parse_or_problem
from loopkit.values import Value


class Use(Value, frozen=True):
    """A guard, its place, and the names that it may read there."""

    path: DocPath
    text: str
    types: Mapping[str, GuardType]
    state: str | None = None
    """The state whose transition it guards; None for the guard of a rule."""


def check_named(subject: Subject) -> Iterator[Problem]:
    """The guards under `guards:`: their syntax, and that they do not use each other in a cycle."""
    for name, parsed in subject.guards.named.items():
        if isinstance(parsed, GuardProblem) and not _is_reported_elsewhere(subject, name):
            yield place_fault(subject, ("guards", name), parsed)


def _is_reported_elsewhere(subject: Subject, name: str) -> bool:
    """Whether the fault of a named guard is that of another one, where it is reported."""
    reached = subject.guards.reached
    if name not in reached or not any(other in reached[other] for other in reached[name]):
        return False
    in_circle = name in reached[name]
    circle = [other for other in reached if other in reached[name] and name in reached[other]]
    return not in_circle or circle[0] != name


def check_guards(subject: Subject) -> Iterator[Problem]:
    """The guards of transitions and rules: their syntax, names and types."""
    for use in uses(subject):
        fault = subject.guards.problem_of(use.text)
        if fault is not None:
            yield place_fault(subject, use.path, fault)
        elif whole := subject.guards.whole(use.text):
            yield from _place_faults(subject, use, check(whole, use.types))


def uses(subject: Subject) -> Iterator[Use]:
    """Every guard that is evaluated."""
    for name in subject.machine.states:
        types = subject.guard_types[name]
        for edge in subject.graph.on(name, "done"):
            if edge.guard is not None:
                yield Use((*edge.path, "guard"), edge.guard, types, name)
    types = subject.scope.guards.common
    for placed in subject.rules:
        if placed.rule.guard is not None:
            yield Use((*placed.path, "guard"), placed.rule.guard, types)


def _place_faults(subject: Subject, use: Use, faults: list[GuardProblem]) -> Iterator[Problem]:
    """The faults, each in the guard where it is written, which may be a named one."""
    if not faults:
        return
    wanted = {(fault.code, fault.message) for fault in faults}
    types = over(use.types, dict.fromkeys(subject.guards.usable, BOOL))
    found = False
    for path, guard in _pieces(subject, use):
        for fault in check(guard, types):
            if (fault.code, fault.message) in wanted:
                found = True
                problem = place_fault(subject, path, _with_remedy(subject, use, guard, fault))
                yield problem if path == use.path else subject.with_use(problem, use.path)
    if not found:
        yield from (place_fault(subject, use.path, fault) for fault in faults)


def _pieces(subject: Subject, use: Use) -> Iterator[tuple[DocPath, Guard]]:
    """The guard itself, and the named guards that it uses."""
    guard = parse_or_problem(use.text)
    if isinstance(guard, Guard):
        yield use.path, guard
        used = subject.guards.named_guards_in(guard)
        for name in subject.machine.guards:
            if name in used:
                yield ("guards", name), subject.guards.usable[name]


def _with_remedy(subject: Subject, use: Use, guard: Guard, fault: GuardProblem) -> GuardProblem:
    if fault.code != "unknown-name" or "quotes" in fault.help:
        return fault
    name = guard.text[fault.column - 1 : fault.column - 1 + fault.length]
    remedy = remedy_for(subject, use.state, use.types, name)
    return fault.replace(help=remedy) if remedy else fault


def place_fault(subject: Subject, path: DocPath, fault: GuardProblem) -> Problem:
    """The fault of a guard, or of another text in its language, that is written at a path."""
    return subject.source.problem_inside(
        path,
        fault.code,
        fault.message,
        help=fault.help,
        column=fault.column,
        length=fault.length,
    )
