"""Facts that guards and templates name, the types that they share, and the levels of findings."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from loopkit.language.guard.type_check import GuardType
from loopkit.values import Value

BOOL, INT = GuardType("bool"), GuardType("int")
COUNT = GuardType("int", minimum=0)
NUMBER = GuardType("int", minimum=1)
BOUNDED_COUNT = GuardType("int", bounded=True, minimum=0)
COUNTING: Mapping[str, GuardType] = dict.fromkeys(("revisions", "max_revisions"), BOUNDED_COUNT)
"""The facts about the one revise edge of a state."""
OF_REVISING: Mapping[str, GuardType] = {"cap_reached": BOOL, **COUNTING}
VERDICT = "verdict"
ERRORS, WARNINGS = COUNTS = "error_count", "warning_count"
"""The number of blocking findings of a report, and of others. Rules bound both."""
CODES = "codes"
SEVERITY = "severity"
"""The fact of how severe a report is as a whole; each machine has its words for that."""
STALLED = "stalled"
REGRESSED = "regressed"
SCORE = "score"
"""The fact of a report that its judges give, where one of them has a score."""
ORIGIN = "origin"
"""The fact of a report that says who works first on what blocks, where the machine has origins."""
CAME_FROM = "came_from"
"""The fact of a human or choice state that says from which state a run came to it."""
ACCEPTED = ("pass", "warn", "not_applicable")
COMPLETE = ("pass", "warn", "fail", "not_applicable")
"""The verdicts of those who were asked."""
UNANSWERED = ("infeasible", "incomplete")
"""The verdicts where nobody was asked, or an answer is missing."""
VERDICTS = (*COMPLETE, *UNANSWERED)


class ReportFact(Value, frozen=True):
    type: GuardType
    is_printed: bool = True
    """Whether templates see it as a field of the report."""
    holds_for: tuple[str, ...] = ()
    """The verdicts for which it holds, where nothing else decides it."""
    earlier: int = 0
    """How many versions judged before it takes, if it tells of progress; then it holds only of a
    `fail`."""


REPORT_FACTS: Mapping[str, ReportFact] = {
    "valid": ReportFact(BOOL, holds_for=ACCEPTED),
    VERDICT: ReportFact(GuardType("str", values=VERDICTS)),
    ERRORS: ReportFact(COUNT),
    WARNINGS: ReportFact(COUNT),
    SEVERITY: ReportFact(GuardType("str")),
    CODES: ReportFact(GuardType("texts"), is_printed=False),
    REGRESSED: ReportFact(BOOL, is_printed=False, earlier=2),
    STALLED: ReportFact(BOOL, earlier=1),
    "infeasible": ReportFact(BOOL, is_printed=False, holds_for=("infeasible",)),
    "incomplete": ReportFact(BOOL, is_printed=False, holds_for=("incomplete",)),
}
"""The facts of every report: the one table of them."""
OF_REPORTS: Mapping[str, GuardType] = {name: fact.type for name, fact in REPORT_FACTS.items()}
PRINTED_FACTS = tuple(name for name, fact in REPORT_FACTS.items() if fact.is_printed)
OF_VERDICT = tuple(name for name, fact in REPORT_FACTS.items() if fact.holds_for)
"""The facts that the verdict alone decides."""
OF_PROGRESS = {name: fact.earlier for name, fact in REPORT_FACTS.items() if fact.earlier}
"""The facts that tell whether revising comes on."""


def of_verdict(verdict: object) -> dict[str, object]:
    if verdict is None:
        return {}
    return {name: verdict in REPORT_FACTS[name].holds_for for name in OF_VERDICT}


def rows_named(names: frozenset[str]) -> frozenset[str]:
    """The reports without a judgement that reach transitions whose guards use these names."""
    rows = frozenset(UNANSWERED)
    return rows if VERDICT in names else rows & names


ERROR, WARNING = "error", "warning"


class Severities(Value, frozen=True, dict=True):
    """The levels of a machine, worst first."""

    levels: tuple[str, ...] = (ERROR, WARNING)
    blocking: str = ERROR
    """The mildest level at which something has to be corrected."""
    block: str | None = None
    """The mildest level that blocks where findings are counted, if that is another one."""

    @property
    def worst(self) -> str:
        return self.levels[0]

    @cached_property
    def ungraded(self) -> str:
        """The level of findings that nobody graded and that must be corrected: it always blocks."""
        return min(self.blocking, self.block or self.blocking, key=self.rank)

    def rank(self, level: str) -> int:
        """0 for the worst level; what is no level counts as the worst."""
        return self.levels.index(level) if level in self.levels else 0

    def is_severe(self, level: str) -> bool:
        """Whether a reviewer who names a finding of this level rejects what is judged."""
        return self.rank(level) <= self.rank(self.blocking)

    def blocks(self, level: str) -> bool:
        """Whether findings of this level block where they are counted."""
        return self.rank(level) <= self.rank(self.block or self.blocking)

    def with_cap(self, level: str, cap: str | None) -> str:
        return cap if cap is not None and self.rank(level) < self.rank(cap) else level

    def rejects(self, level: str, cap: str | None) -> bool:
        """Whether a finding of this level still rejects when its level is capped."""
        return self.is_severe(self.with_cap(level, cap))

    @property
    def severe(self) -> tuple[str, ...]:
        """The levels with which a reviewer rejects."""
        return tuple(level for level in self.levels if self.is_severe(level))

    @property
    def mild(self) -> tuple[str, ...]:
        """The levels with which a reviewer only advises."""
        return tuple(level for level in self.levels if not self.is_severe(level))

    @property
    def advisory(self) -> str:
        """The worst level that only advises; where none does, the mildest of all."""
        return (*self.mild, self.levels[-1])[0]

    def of_verdicts(self, words: Mapping[str, str]) -> dict[str, str]:
        """The severity that a finding has by each word of a verdict; `none` is not a finding."""
        known = {"pass": "none", "warn": self.advisory, "fail": self.ungraded}
        return {word: known[meant] for word, meant in words.items()}

    def blocking_from(self, level: str | None) -> Severities:
        """The levels, of which this one and worse block; none leaves that to the machine."""
        return self.replace(block=level)
