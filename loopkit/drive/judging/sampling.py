"""Sampling: the judges of a validate state, each asked as often as its rule says, concurrently."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Sequence
from dataclasses import replace
from typing import Any

from loopkit.drive.judging.judge import Judge, opinion
from loopkit.drive.limits import LimitReached
from loopkit.engine.findings import Answer
from loopkit.engine.ledger.opinions import combine_samples, confirm
from loopkit.validators.judged_artifact import JudgedArtifact
from loopkit.validators.judges.prompt import judge_prompt
from loopkit.validators.setting import Setting


async def ask_all(
    judges: Sequence[Judge], subject: JudgedArtifact, setting: Setting
) -> list[Answer]:
    """The answers of all judges, asked concurrently; raises LimitReached."""
    return await _gather_answers(ask(judge, subject, setting) for judge in judges)


async def ask(judge: Judge, subject: JudgedArtifact, setting: Setting) -> Answer:
    """One judge's answer: its samples combined, with a second opinion if its rule wants one.

    Each sample, and the second opinion, is a conversation of its own.
    """
    if not judge.applies(setting):
        reason = f"guard `{judge.rule.guard}` is false"
        return Answer(validator=judge.validator, verdict="not_applicable", reason=reason)
    rule, levels = judge.rule, judge.levels

    def give_opinion(number: int) -> Coroutine[Any, Any, Answer]:
        one = replace(judge, number=number)
        return opinion(one, judge_prompt(rule, subject, setting.names, one.form))

    samples = await _gather_answers(map(give_opinion, range(1, rule.samples + 1)))
    answer = combine_samples(samples, rule.combine, levels)
    if rule.confirm is None or answer.verdict != "fail":
        return answer
    return confirm(answer, await give_opinion(rule.samples + 1), levels)


async def _gather_answers(requests: Iterable[Coroutine[Any, Any, Answer]]) -> list[Answer]:
    """All answers, asked for concurrently.

    If one raises, the others finish first: they are paid for.
    """
    answers: list[Answer] = []
    raised: list[BaseException] = []
    for result in await asyncio.gather(*requests, return_exceptions=True):
        if isinstance(result, BaseException):
            raised.append(result)
        else:
            answers.append(result)
    if raised:
        # The limit may be reached only because of what the defect left unsettled.
        raise min(raised, key=lambda error: isinstance(error, LimitReached))
    return answers
