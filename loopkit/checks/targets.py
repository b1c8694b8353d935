"""`unknown-target`, `starts-at-end`: an edge or the start leads to no working state."""

from __future__ import annotations

from collections.abc import Iterator

from loopkit.checks.subject import Subject, target_path
from loopkit.document.document import DocPath
from loopkit.document.problems import Problem, did_you_mean
from loopkit.language import WorkingState


def check_targets(subject: Subject) -> Iterator[Problem]:
    """The targets of edges, `resets`, `limits.then` and `initial`."""
    for name, path in _target_names(subject):
        if name not in subject.machine.states:
            remedy = did_you_mean(name, subject.machine.states)
            message = f"there is no state `{name}`"
            yield subject.source.problem(path, "unknown-target", message, help=remedy)
    yield from _starts_at_the_end(subject)


def _target_names(subject: Subject) -> Iterator[tuple[str, DocPath]]:
    machine = subject.machine
    if machine.initial is not None:
        yield machine.initial, ("initial",)
    if machine.limits.then is not None:
        yield machine.limits.then, ("limits", "then")
    for edge in subject.graph.edges:
        if edge.event != "limit":
            yield edge.target, target_path(edge)
    for name, state in machine.states_of(WorkingState).items():
        for index, transition in enumerate(state.transitions or ()):
            for at, reset in enumerate(transition.resets):
                yield reset, ("states", name, "transitions", index, "resets", at)


def _starts_at_the_end(subject: Subject) -> Iterator[Problem]:
    machine = subject.machine
    if machine.start in machine.finals:
        path = ("states", machine.start) if machine.initial is None else ("initial",)
        message = f"the run would start at its end: `{machine.start}` is a final state"
        remedy = "put the state that works first on top, or name it with `initial:`"
        is_key = machine.initial is None
        yield subject.source.problem(path, "starts-at-end", message, help=remedy, key=is_key)
