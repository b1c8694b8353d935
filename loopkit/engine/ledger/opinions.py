"""Several answers of one judge about one artifact -> the answer that counts.

A missing answer never helps the artifact: a fail counts as soon as no missing answer could change
it, an approval only if every answer that was asked for is there.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median_low
from typing import Literal

from loopkit.engine.failure import WORST_CLASS
from loopkit.engine.findings import Answer, latest_resume, with_findings
from loopkit.engine.ledger.combining import MISSING, as_advice, merge_findings
from loopkit.language.severities import Severities


def combine_samples(
    samples: Sequence[Answer], combine: Literal["majority", "strictest"], levels: Severities
) -> Answer:
    """The answer of a judge that was asked several times, with the findings of the winning side.

    It fails if half of all samples fail, or one if the strictest counts. The score is the median,
    the lower one of two in the middle. One sample is its own answer.
    """
    if len(samples) == 1:
        return samples[0]
    against = [sample for sample in samples if sample.verdict == "fail"]
    missing = [sample for sample in samples if sample.verdict in MISSING]
    summary = _vote_summary(len(against), len(missing), len(samples))
    needed = 1 if combine == "strictest" else (len(samples) + 1) // 2
    if len(against) >= needed:
        return _combine(against, samples, summary, levels)
    if missing:
        return _missing_answer(missing, summary)
    approving = [sample for sample in samples if sample.verdict != "fail"]
    return _combine(approving, samples, summary, levels)


def confirm(answer: Answer, second: Answer, levels: Severities) -> Answer:
    """A failing answer combined with a second opinion.

    If the second opinion fails too, the result fails with the findings of both; if it does not,
    they are warnings; if it is missing, so is the result.
    """
    first = f"{answer.reason}; " if answer.reason else "it fails, and "
    both = (answer, second)
    if second.verdict in MISSING:
        reason = f"{first}the second opinion is missing: {second.reason}"
        return second.replace(reason=reason)
    if second.verdict == "fail":
        return _combine(both, both, f"{first}a second opinion confirms it", levels)
    reason = f"{first}a second opinion does not confirm it"
    return _combine((as_advice(answer, levels), second), both, reason, levels)


def _combine(
    winning: Sequence[Answer], given: Sequence[Answer], reason: str, levels: Severities
) -> Answer:
    scores = [answer.score for answer in given if answer.score is not None]
    score = median_low(scores) if scores else None
    first = winning[0].replace(reason=reason, score=score)
    return with_findings(first, merge_findings(winning, levels))


def _missing_answer(missing: Sequence[Answer], summary: str) -> Answer:
    """The worst missing answer, on behalf of all of them."""
    worst = min(missing, key=lambda answer: WORST_CLASS.index(answer.error_class or "content"))
    return worst.replace(reason=f"{summary}: {worst.reason}", resume_at=latest_resume(missing))


def _vote_summary(against: int, missing: int, asked: int) -> str:
    summary = f"{against} of {asked} samples {'fails' if against == 1 else 'fail'}"
    return f"{summary}, {missing} gave no verdict" if missing else summary
