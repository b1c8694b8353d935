"""`check`: all checks of a machine, and the problems that they find before anything runs."""

from __future__ import annotations

from collections.abc import Iterable
from weakref import WeakSet

# Each of them subscribes its rules.
from loopkit.checks import (  # noqa: F401
    artifacts,
    child_runs,
    collisions,
    exits,
    guards,
    references,
    report_maps,
    scripts,
    templates,
    text_as_code,
    unused,
)
from loopkit.checks.subject import RULES, Subject
from loopkit.document.problems import Problem, ProblemsFound, Span, place_of
from loopkit.language.load import Loaded, Unfit

CHECKS = [rule for rules in RULES.values() for rule in rules]


def check(loaded: Loaded) -> list[Problem]:
    """All problems of a machine and its child machines, each once, by place. Runs nothing."""
    every = (problem for one in loaded.family for problem in _of_one(one))
    return sorted(_each_once(every), key=place_of)


def _of_one(loaded: Loaded) -> list[Problem]:
    """The problems of a machine, without those of its child machines."""
    subject = Subject.of(loaded)
    found: list[Problem] = []
    is_sound = subject.is_sound()
    for stage, rules in RULES.items():
        has_errors = any(problem.severity == "error" for problem in found)
        if stage == "parts" or (is_sound and not (stage == "unneeded" and has_errors)):
            found += (problem for rule in rules for problem in rule(subject))
    return exits.confirm_by_exploring(subject, _each_once(found))


def problems_in(found: ProblemsFound) -> list[Problem]:
    """The problems of a file, and the errors in the rest of a machine with mistakes in its form."""
    if not isinstance(found, Unfit):
        return list(found.problems)
    subject = Subject.of(found.rest)
    others = (problem for rule in RULES["parts"] for problem in rule(subject))
    errors = (one for one in others if one.severity == "error" and not found.form.explains(one))
    return sorted(_each_once([*found.problems, *errors]), key=place_of)


def _each_once(problems: Iterable[Problem]) -> list[Problem]:
    found: dict[tuple[str, str, Span | None], Problem] = {}
    for problem in problems:
        found.setdefault((problem.code, problem.message, problem.span), problem)
    return list(found.values())


_SOUND: WeakSet[Loaded] = WeakSet()
"""Machines without errors, so that one that is loaded once and run often is checked once."""


def refuse_errors(loaded: Loaded) -> None:
    """Raise ProblemsFound with all errors of a machine, where it has any."""
    if loaded in _SOUND:
        return
    errors = [problem for problem in check(loaded) if problem.severity == "error"]
    if errors:
        raise ProblemsFound(errors)
    _SOUND.add(loaded)
