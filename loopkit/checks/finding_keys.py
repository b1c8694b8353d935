"""`missing-key`: findings are compared over rounds or judges, and only their words differ."""

from __future__ import annotations

from collections.abc import Iterator

from loopkit.checks.subject import Subject
from loopkit.document.document import DocPath
from loopkit.document.problems import Problem
from loopkit.language import Rule
from loopkit.proof.outcomes import PlacedRule
from loopkit.proof.outcomes.severity import levels_at, may_block

OF_MAP = "add `key:` with the path to what it calls a finding in every round"
OF_VERDICT = (
    "add a group `key` to `verdict.findings`, as in `^- (?P<key>[\\w.-]+): (?P<message>.+)$`"
)


def check_finding_keys(subject: Subject) -> Iterator[Problem]:
    """`settle_after` and `merge` of each validate state find a key in the reports that need one."""
    for placed in subject.rules:
        lacking = _lacking(subject, placed.rule)
        for name in placed.judged_at if lacking else ():
            message = _need_of_key(subject, name, placed)
            if lacking and message:
                path, remedy = (*placed.path, *lacking[0]), lacking[1]
                yield subject.source.problem(path, "missing-key", message, help=remedy, key=True)


def _lacking(subject: Subject, rule: Rule) -> tuple[DocPath, str] | None:
    """Where a key is missing and how to add one; none where there is one, or no need of it.

    A judge in our own form is asked about what was open, and rules know what they look for.
    """
    if rule.report_map is not None and rule.report_map.key is None:
        return ("map",), OF_MAP
    if rule.verdict_reading is None:
        return None
    written = rule.verdict_reading.findings
    if written is None:
        return ("verdict",), OF_VERDICT
    pattern = subject.pattern(written)
    has_key = pattern is None or "key" in pattern.groupindex
    return None if has_key else (("verdict", "findings"), OF_VERDICT)


def _need_of_key(subject: Subject, name: str, placed: PlacedRule[Rule]) -> str:
    """The reason why a state needs a key of this rule's findings; empty if it needs none."""
    state = subject.judges[name]
    if state.merge is not None and placed.rule.asks is not None:
        return f"`merge` of `{name}` joins findings with the same key, but these have none"
    if state.settle_after is not None and may_block(placed.rule, levels_at(subject.machine, state)):
        return f"`settle_after` of `{name}` could recognize these findings only by their words"
    return ""
