"""Answers of validators -> the findings, the verdict and the reason of one report."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from operator import attrgetter

from loopkit.engine.failure import WORST_CLASS
from loopkit.engine.findings import Answer, Finding, Verdict, with_findings
from loopkit.engine.findings import verdict_of as verdict_of_findings
from loopkit.engine.identity import OF_CHECK
from loopkit.engine.rounds import Earlier
from loopkit.language import ValidateState
from loopkit.language.agents.calls import ErrorClass
from loopkit.language.severities import Severities
from loopkit.values import Value

MISSING = ("error", "unparsed")
_VERDICT = attrgetter("verdict")


class Panel(Value, frozen=True):
    """All answers about one attempt."""

    fixed: tuple[Answer, ...]
    """The answers of the rules that need no model."""
    judges: tuple[Answer, ...]
    """The answer of each judge; empty if they were not asked because a rule blocks."""

    @property
    def answers(self) -> tuple[Answer, ...]:
        return (*self.fixed, *self.judges)

    @property
    def missing(self) -> tuple[Answer, ...]:
        """The answers without a verdict, of rules and judges."""
        return tuple([answer for answer in self.answers if answer.verdict in MISSING])

    def is_short(self, quorum: int | None) -> bool:
        """Whether a rule gave no verdict, or fewer judges gave one than wanted."""
        for answer in self.fixed:
            if answer.verdict in MISSING:
                return True
        asked = given = 0
        for answer in self.judges:
            if answer.verdict != "not_applicable":
                asked += 1
                given += answer.verdict not in MISSING
        return given < (asked if quorum is None else min(quorum, asked))


def outvote(panel: Panel, levels: Severities) -> Panel:
    """The panel with failing judges outvoted if more judges approve."""
    against = sum(answer.verdict == "fail" for answer in panel.judges)
    for_it = sum(answer.verdict in ("pass", "warn") for answer in panel.judges)
    if not 0 < against < for_it:
        return panel
    return Panel(panel.fixed, tuple(_outvote_answer(answer, levels) for answer in panel.judges))


def _outvote_answer(answer: Answer, levels: Severities) -> Answer:
    if answer.verdict != "fail":
        return answer
    reason = f"{answer.reason}; it is outvoted" if answer.reason else "it fails, and is outvoted"
    vetoes = {finding.id for finding in answer.findings if finding.rule == OF_CHECK}
    return as_advice(answer.replace(reason=reason), levels, but=vetoes)


def as_advice(answer: Answer, levels: Severities, but: Container[str] = ()) -> Answer:
    """The answer in which only the findings with the ids `but` may block."""
    level = levels.advisory
    found = (
        f.with_level(level, blocking=False) if f.blocking and f.id not in but else f
        for f in answer.findings
    )
    return with_findings(answer, found)


def settle(
    answers: Sequence[Answer], earlier: Earlier, state: ValidateState, levels: Severities
) -> tuple[Answer, ...]:
    """The answers after `settle_after` rounds: findings that are new by then do not block.

    The worst severity still blocks, and so does a finding that can't be told from known ones.
    """
    if state.settle_after is None or len(earlier) < state.settle_after:
        return tuple(answers)
    known = {found for entry in earlier.first(state.settle_after) for found in entry.ids}

    def settle_finding(finding: Finding) -> Finding:
        is_new = finding.identified and finding.id not in known
        settles = is_new and finding.severity != levels.worst
        return finding.replace(blocking=False) if settles else finding

    return tuple(with_findings(answer, map(settle_finding, answer.findings)) for answer in answers)


def merge_findings(answers: Iterable[Answer], levels: Severities) -> list[Finding]:
    """Each finding once, blocking ones first, the worst first, in the order of the validators.

    A finding that several validators have under one key is taken from the one that grades it worst,
    with all their names.
    """

    all_found = [finding for answer in answers for finding in answer.findings]
    if len(all_found) < 2:
        return all_found

    def badness(finding: Finding) -> tuple[bool, int]:
        return not finding.blocking, levels.rank(finding.severity)

    unique: dict[str, Finding] = {}
    for finding in all_found:
        known = unique.get(finding.id)
        if known is None:
            unique[finding.id] = finding
            continue
        names = tuple(dict.fromkeys((*known.named_by, *finding.named_by)))
        worst = min(known, finding, key=badness)
        if known.origins != finding.origins:
            worst = worst.replace(origins=(*known.origins, *finding.origins))
        is_shared = finding.key and len(names) > 1
        unique[finding.id] = worst.replace(reviewers=names) if is_shared else worst
    return sorted(unique.values(), key=badness)


def verdict_of(panel: Panel, findings: Iterable[Finding], quorum: int | None) -> Verdict:
    """The strictest verdict counts; missing answers make the report incomplete."""
    found = verdict_of_findings(findings)
    given = set(map(_VERDICT, panel.answers))
    if "infeasible" in given:
        return "infeasible"
    if found == "fail":
        return "fail"
    if panel.is_short(quorum):
        return "incomplete"
    if found == "warn":
        return "warn"
    return "pass" if "pass" in given else "not_applicable"


def worst_class(missing: Iterable[Answer]) -> ErrorClass:
    """The worst class among missing answers."""
    classes = {answer.error_class or "content" for answer in missing}
    return next(error_class for error_class in WORST_CLASS if error_class in classes)


def reason(verdict: Verdict, panel: Panel) -> str:
    """Why a report has no verdict, in the words of the validators that gave none."""
    if verdict == "incomplete":
        return "; ".join(f"{answer.validator}: {answer.reason}" for answer in panel.missing)
    return next(a.reason for a in panel.answers if a.verdict == "infeasible")
