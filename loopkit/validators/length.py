"""`min_chars` and `max_chars`: the length of a text."""

from __future__ import annotations

from loopkit.language import MaxCharsRule, MinCharsRule
from loopkit.text import plural
from loopkit.validators.fault import Fault, amount
from loopkit.validators.judged_artifact import JudgedArtifact
from loopkit.validators.setting import Setting


async def check_min_chars(
    rule: MinCharsRule, subject: JudgedArtifact, _setting: Setting
) -> list[Fault]:
    number = len(subject.content.strip())
    if number >= rule.min_chars:
        return []
    has, least = plural(number, "character", ","), amount(rule.min_chars)
    message = f"the text has {has}, at least {least} needed"
    return [Fault(message, "too short", value=number)]


async def check_max_chars(
    rule: MaxCharsRule, subject: JudgedArtifact, _setting: Setting
) -> list[Fault]:
    number = len(subject.content.strip())
    if number <= rule.max_chars:
        return []
    has, most = plural(number, "character", ","), amount(rule.max_chars)
    message = f"the text has {has}, at most {most} allowed"
    return [Fault(message, "too long", value=number)]
