"""`no-effect`: an `on_error` on a state whose work cannot fail."""

from __future__ import annotations

from collections.abc import Iterator

from loopkit.checks.subject import Subject
from loopkit.document.problems import Problem
from loopkit.language import WorkingState


def check_errors(subject: Subject) -> Iterator[Problem]:
    """A warning for `on_error` on a state whose work cannot fail."""
    for name, state in subject.machine.states_of(WorkingState).items():
        if state.on_error is not None and not state.faults:
            path = ("states", name, "on_error")
            message = f"{state.doing} cannot fail, so this edge is never taken"
            yield subject.no_effect(path, message)
