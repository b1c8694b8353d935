"""`before-first-work`: a `baseline` command needs more than the input, and runs before any work."""

from __future__ import annotations

from collections.abc import Iterator

from loopkit.checks.subject import Subject
from loopkit.document.problems import Problem
from loopkit.language import CommandRule, ValidateState
from loopkit.language.template import TemplateError, parse
from loopkit.machine.graph import DocPath

MEANINGS = {
    "before-first-work": "A command before the first work takes what does not exist then.",
}


def check_baselines(subject: Subject) -> Iterator[Problem]:
    """The templates of rules with `baseline`, and the workspaces in which they run."""
    places: dict[DocPath, str] = {}
    for placed in subject.rules:
        if isinstance(placed.rule, CommandRule) and placed.rule.baseline:
            places.update(((*placed.path, *at), text) for at, text in placed.rule.templates)
            for name in placed.judged_at:
                places.update(_workspace(subject, name))
    for path, text in places.items():
        yield from _too_early(subject, path, text)


def _workspace(subject: Subject, name: str) -> Iterator[tuple[DocPath, str]]:
    state = subject.machine.states[name]
    own = state.workspace if isinstance(state, ValidateState) else None
    if own is not None:
        yield ("states", name, "workspace", "path"), own.path
    elif subject.machine.workspace is not None:
        yield ("workspace", "path"), subject.machine.workspace.path


def _too_early(subject: Subject, path: DocPath, text: str) -> Iterator[Problem]:
    try:
        named = parse(text).names
    except TemplateError:
        # Told with all other templates that cannot be read.
        return
    for name in sorted(named - {"input"}):
        yield subject.source.problem_inside(
            path,
            "before-first-work",
            f"`{name}` does not exist yet where this is filled in for the `baseline`",
            help="it runs before the first work, when there is nothing but `input`",
        )
