"""`before-first-work`: a `baseline` command needs more than the input, and runs before any work."""

from __future__ import annotations

from collections.abc import Iterator

from loopkit.checks.subject import Subject
from loopkit.checks.template_uses import workspace_of
from loopkit.document.document import DocPath
from loopkit.document.problems import Problem
from loopkit.language import CommandRule
from loopkit.language.noun import INPUT_FILE
from loopkit.language.template import TemplateError, parse


def check_baselines(subject: Subject) -> Iterator[Problem]:
    """The templates of rules with `baseline`, and the workspaces in which they run."""
    places: dict[DocPath, str] = {}
    for placed in subject.rules_of(CommandRule):
        if placed.rule.baseline:
            places.update(((*placed.path, *at), text) for at, text in placed.rule.templates)
            for name in placed.judged_at:
                places.update(workspace_of(subject, name))
    for path, text in places.items():
        yield from _too_early(subject, path, text)


def _too_early(subject: Subject, path: DocPath, text: str) -> Iterator[Problem]:
    try:
        named = parse(text).names
    except TemplateError:
        # Reported with all other templates that cannot be parsed.
        return
    for name in sorted(named - {"input", INPUT_FILE}):
        yield subject.source.problem_inside(
            path,
            "before-first-work",
            f"`{name}` does not exist yet where this is filled in for the `baseline`",
            help="it runs before the first work, when there is nothing but `input`",
        )
