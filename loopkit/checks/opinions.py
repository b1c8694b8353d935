"""`no-effect`: `samples`, `confirm` or `combine` of a judge, where it decides nothing."""

from __future__ import annotations

from collections.abc import Iterator

from loopkit.checks.subject import Subject
from loopkit.document.problems import Problem
from loopkit.language import JudgeRule
from loopkit.proof.outcomes import PlacedRule
from loopkit.proof.outcomes.severity import levels_at, may_block


def check_opinions(subject: Subject) -> Iterator[Problem]:
    """A warning for each `samples`, `confirm` and `combine` of a judge that changes nothing."""
    for placed in subject.rules_of(JudgeRule):
        for key, message in _idle(subject, placed):
            yield subject.no_effect((*placed.path, key), message)


def _idle(subject: Subject, placed: PlacedRule[JudgeRule]) -> Iterator[tuple[str, str]]:
    rule = placed.rule
    never_fails = bool(placed.judged_at) and not _may_fail(subject, placed)
    if rule.confirm is not None and never_fails:
        yield "confirm", "this judge never fails: with its `severity` it only advises"
    if rule.samples > 1 and never_fails:
        yield "samples", "there is nothing to vote on: with its `severity` this judge only advises"
    if rule.samples == 1 and "combine" in rule.model_fields_set:
        yield "combine", "there is one sample, so there is nothing to combine"


def _may_fail(subject: Subject, placed: PlacedRule[JudgeRule]) -> bool:
    levels = (levels_at(subject.machine, subject.judges[name]) for name in placed.judged_at)
    return any(may_block(placed.rule, at) for at in levels)
