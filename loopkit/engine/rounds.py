"""Rounds: the complete reports of validate states.

If a run goes back to an earlier version, the rounds since then are given up: they still count for
stalls, but not for what is open, nor for what had been found before.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from itertools import takewhile

from loopkit.engine.findings import OF_JUDGE, OF_SCORE, SAYS_NOTHING, Finding, Report
from loopkit.engine.payloads import Artifact
from loopkit.values import NOTHING, Value

Attempt = tuple[tuple[str, int], ...]
"""An author and its attempt number, and those of all states whose artifacts it used."""


def attempt_at(author: str, attempt: int, made_from: Mapping[str, int]) -> Attempt:
    return ((author, attempt), *sorted(made_from.items()))


@dataclasses.dataclass(slots=True)
class Round:
    """One complete report and the artifacts as they were then.

    The values that later rounds are compared with are computed once.
    """

    report: Report
    judged: Artifact
    snapshot: Mapping[str, Artifact]
    reports: Mapping[str, Report]
    """The current report of every validate state then, this one included."""
    number: int
    """How many rounds the run had before, of all validate states."""
    attempt: Attempt = dataclasses.field(init=False, compare=False)
    ids: frozenset[str] = dataclasses.field(init=False, compare=False)
    blocking_ids: frozenset[str] = dataclasses.field(init=False, compare=False)
    blocked_by: object = dataclasses.field(init=False, compare=False)

    def __post_init__(self) -> None:
        report, judged = self.report, self.judged
        self.attempt = attempt_at(judged.author, judged.attempt, report.made_from)
        # Of a finding that several validators have, each has its own id.
        told = (report.findings, *(answer.findings for answer in report.answers))
        self.ids = frozenset(one.id for findings in told for one in findings)
        self.blocking_ids, self.blocked_by = what_blocks(report)


def what_blocks(report: Report) -> tuple[frozenset[str], object]:
    """The ids of blocking findings, and a value that is equal if the same findings block.

    If one id stands for every failure, that value is equal to nothing else. A judge's own words
    are the same only if each of them is; silence is no sign that nothing changed.
    """
    ids: list[str] = []
    is_identified = True
    for finding in report.findings:
        if finding.blocking and not finding.is_repetition:
            ids.append(finding.id)
            speaks = finding.rule == OF_JUDGE and finding.message != SAYS_NOTHING
            is_identified = is_identified and (finding.identified or speaks)
    blocking = frozenset(ids)
    return blocking, blocking if is_identified else object()


class Rounds(Value, frozen=True):
    """The rounds of one validate state, oldest first: the last one of each attempt."""

    by_attempt: dict[Attempt, Round] = NOTHING
    kept: Rounds | None = None
    """The rounds that were not given up, if some were."""

    def plus(self, entry: Round) -> Rounds:
        """These rounds and one more; judging an attempt again replaces its round."""
        others = self.before(entry.attempt)
        kept = None if others.kept is None else others.kept.plus(entry)
        return Rounds({**others.by_attempt, entry.attempt: entry}, kept)

    def before(self, attempt: Attempt) -> Rounds:
        """The rounds of all other attempts."""
        if attempt not in self.by_attempt:
            return self
        others = {known: entry for known, entry in self.by_attempt.items() if known != attempt}
        return Rounds(others, None if self.kept is None else self.kept.before(attempt))

    def back_to(self, line: Iterable[Round]) -> Rounds:
        """These rounds with all but `line` given up."""
        return self.replace(kept=Rounds({entry.attempt: entry for entry in line}))

    @property
    def line(self) -> Rounds:
        """The rounds that led to the current version."""
        return self if self.kept is None else self.kept

    @property
    def last(self) -> Round | None:
        return next(reversed(self.by_attempt.values()), None)

    @property
    def open(self) -> tuple[Finding, ...]:
        """The findings of the last round, and the earlier ones that it did not look for."""
        last = self.line.last
        return (*last.report.findings, *last.report.unseen) if last else ()

    def __iter__(self) -> Iterator[Round]:
        return iter(self.by_attempt.values())

    def __len__(self) -> int:
        return len(self.by_attempt)

    def __reversed__(self) -> Iterator[Round]:
        return reversed(self.by_attempt.values())

    @property
    def since_valid(self) -> list[Round]:
        """The rounds after the last valid one, newest first."""
        return list(takewhile(lambda entry: not entry.report.valid, reversed(self)))


def best_of(rounds: Iterable[Round]) -> Round | None:
    """The round with the best work.

    Fewest blocking findings of deterministic validators, then fewest blocking, fewest others, the
    best score, the earliest. A faulty artifact, on which no rule was run, comes last.
    """
    return min(rounds, key=_rank, default=None)


def _rank(entry: Round) -> tuple[bool, int, int, int, float, int]:
    report = entry.report
    deterministic = sum(f.blocking and f.rule not in (OF_JUDGE, OF_SCORE) for f in report.findings)
    score = float("-inf") if report.score is None else report.score
    counts = (deterministic, len(report.blocking), len(report.warnings))
    return (bool(entry.judged.fault), *counts, -score, entry.number)
