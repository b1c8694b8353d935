"""`matches` and `not_matches`: matches of a pattern in a text."""

from __future__ import annotations

from itertools import islice

from loopkit.language import MatchesRule, NotMatchesRule
from loopkit.text import plural
from loopkit.text.markdown import without_code
from loopkit.text.patterns import count_of, occurrences
from loopkit.validators.fault import MAX_FAULTS, Fault, amount
from loopkit.validators.judged_artifact import JudgedArtifact
from loopkit.validators.setting import Setting


async def check_matches(
    rule: MatchesRule, subject: JudgedArtifact, setting: Setting
) -> list[Fault]:
    text = subject.content
    if rule.outside_code:
        text = without_code(text)
    pattern, least, most = rule.matches, rule.count.min, rule.count.max
    # Without an upper limit, counting can stop at the lower one.
    number = count_of(pattern, text, setting.patterns, most=least if most is None else None)
    if number < least:
        message = _too_few_message(rule, number, subject, setting)
        return [Fault(message, f"too few {pattern}", value=number)]
    if most is not None and number > most:
        message = (
            f"`{pattern}` matches {plural(number, 'time', ',')}, at most {amount(most)} allowed"
        )
        return [Fault(message, f"too many {pattern}", value=number)]
    return []


async def check_not_matches(
    rule: NotMatchesRule, subject: JudgedArtifact, setting: Setting
) -> list[Fault]:
    text = subject.content
    if rule.outside_code:
        text = without_code(text)
    faults: list[Fault] = []
    line, counted_to = 1, 0
    found = islice(occurrences(rule.not_matches, text, setting.patterns), MAX_FAULTS)
    for index, match in enumerate(found):
        line += text.count("\n", counted_to, match.start())
        counted_to = match.start()
        excerpt = _excerpt(match.group())
        message = f"`{excerpt}` is not allowed (nothing may match `{rule.not_matches}`)"
        faults.append(Fault(message, excerpt, line=line, value=match.group(), index=index))
    return faults


def _too_few_message(
    rule: MatchesRule, number: int, subject: JudgedArtifact, setting: Setting
) -> str:
    where = "text outside code" if rule.outside_code else "text"
    if number or rule.count.min > 1:
        times, least = plural(number, "time", ","), amount(rule.count.min)
        return f"`{rule.matches}` matches {times} in the {where}, at least {least} needed"
    message = f"nothing in the {where} matches `{rule.matches}`"
    inside = rule.outside_code and count_of(rule.matches, subject.content, setting.patterns, most=1)
    return f"{message}; what matches stands inside code" if inside else message


def _excerpt(text: str, limit: int = 80) -> str:
    excerpt = " ".join(text.split())
    return excerpt if len(excerpt) <= limit else f"{excerpt[: limit - 1]}…"
