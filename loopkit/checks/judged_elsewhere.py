"""`judged-elsewhere`: programs judge in another folder than the tree in which the author works."""

from __future__ import annotations

from collections.abc import Iterator

from loopkit.checks.subject import Subject
from loopkit.document.document import DocPath
from loopkit.document.problems import Problem
from loopkit.language import CommandRule, Workspace


def check_judged_elsewhere(subject: Subject) -> Iterator[Problem]:
    """A warning where a program cannot see what it judges, because that is isolated."""
    machine = subject.machine
    judging = {name for placed in subject.rules_of(CommandRule) for name in placed.judged_at}
    for name in sorted(judging):
        [judges_in] = machine.workspaces_at(name)
        for author in subject.graph.artifacts.get(machine.states[name].judges or "", ()):
            hidden = (own for own in machine.workspaces_at(author) if _is_hidden(own, judges_in))
            if (own := next(hidden, None)) is not None:
                message = (
                    f"the programs that judge in `{name}` don't see what `{author}` changes in a "
                    "tree of its own before it is merged"
                )
                written = f"workspace: {{path: {own.path}, isolate: {own.isolate}}}"
                remedy = f"write `{written}` for the whole machine, or for `{name}` as well"
                path: DocPath = ("states", name)
                yield subject.source.problem(
                    path, "judged-elsewhere", message, help=remedy, severity="warning"
                )
                break


def _is_hidden(own: Workspace | None, judges_in: Workspace | None) -> bool:
    if own is None or own.isolate == "none":
        return False
    return judges_in is None or judges_in.isolate == "none" or judges_in.path != own.path
