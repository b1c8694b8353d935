"""`unknown-name`, `unknown-field`: `sees:` shows a rule something that does not exist."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from loopkit.checks.subject import Subject
from loopkit.document.document import DocPath
from loopkit.document.problems import Problem, did_you_mean
from loopkit.language.template import Anything, Fields, Shape
from loopkit.language.template.shapes import member


def check_sees(subject: Subject) -> Iterator[Problem]:
    """The paths under `sees:`, at each state that judges by the rule; a value may be missing."""
    for placed in subject.rules:
        for index, seen in enumerate(placed.rule.shown):
            path = (*placed.path, "sees", index)
            for state in placed.used_at:
                yield from unseen(subject, path, seen, subject.judging[state])


def unseen(
    subject: Subject, path: DocPath, seen: str, names: Mapping[str, Shape]
) -> Iterator[Problem]:
    """A problem if a dotted name, written at `path`, is not among the names or their fields."""
    shape: Shape = Fields(names)
    before: list[str] = []
    for step in seen.split("."):
        if isinstance(shape, Anything):
            return
        known = member(shape, step)
        if known is None:
            fields = shape.fields if isinstance(shape, Fields) else {}
            yield _unknown(subject, path, seen, ".".join(before), step, fields)
            return
        shape = known
        before.append(step)


def _unknown(
    subject: Subject, path: DocPath, seen: str, holder: str, step: str, fields: Mapping[str, Shape]
) -> Problem:
    if not holder:
        remedy = did_you_mean(step, fields)
        return subject.source.problem(path, "unknown-name", f"unknown name `{step}`", help=remedy)
    remedy = did_you_mean(seen, [f"{holder}.{name}" for name in fields])
    remedy = remedy or "it is a list or a single value"
    message = f"`{holder}` has no field `{step}`"
    return subject.source.problem(path, "unknown-field", message, help=remedy)
