"""Facts that guards and templates name: those of a report, and the types that all of them share."""

from __future__ import annotations

from collections.abc import Mapping

from loopkit.language.guard import GuardType
from loopkit.values import Value

BOOL, INT = GuardType("bool"), GuardType("int")
COUNT, NUMBER = GuardType("int", minimum=0), GuardType("int", minimum=1)
BOUNDED_COUNT = GuardType("int", bounded=True, minimum=0)
COUNTING: Mapping[str, GuardType] = dict.fromkeys(("revisions", "max_revisions"), BOUNDED_COUNT)
"""The facts about the one revise edge of a state."""
OF_REVISING: Mapping[str, GuardType] = {"cap_reached": BOOL, **COUNTING}
VERDICT = "verdict"
ERRORS, WARNINGS = COUNTS = "error_count", "warning_count"
"""The number of blocking findings of a report, and of others. Rules bound both."""
CODES = "codes"
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
    """One fact of a report."""

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
    """The facts of a report that its verdict alone decides."""
    if verdict is None:
        return {}
    return {name: verdict in REPORT_FACTS[name].holds_for for name in OF_VERDICT}


def rows_named(names: frozenset[str]) -> frozenset[str]:
    """The reports without a judgement that reach transitions whose guards use these names."""
    rows = frozenset(UNANSWERED)
    return rows if VERDICT in names else rows & names
