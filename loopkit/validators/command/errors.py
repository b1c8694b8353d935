"""`errors:`: how a program ended → a class of errors, and when it is worth asking again."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from datetime import datetime
from itertools import islice
from typing import NamedTuple

from loopkit.language import ErrorRule
from loopkit.language.agents.calls import WAITS, ErrorClass
from loopkit.outside.processes import CommandResult
from loopkit.text.moments import wait_in
from loopkit.text.patterns import compile_pattern, occurrences


class Ending(NamedTuple):
    """What the end of a program means."""

    error_class: ErrorClass
    retry_after_s: float | None = None
    """The wait that the program asks for, where it names one."""


def ending_of(
    errors: Sequence[ErrorRule], result: CommandResult, now: datetime | None = None
) -> Ending | None:
    """What the first rule that fits says of it; none where no rule does.

    Raises PatternError and PatternTimeout.
    """
    for rule in errors:
        if (said := _said(rule, result)) is not None:
            now = now or datetime.now().astimezone()
            waits = (wait_in(text, now) for text in said)
            return Ending(rule.error_class, next((w for w in waits if w is not None), None))
    return None


def _said(rule: ErrorRule, result: CommandResult) -> list[str] | None:
    """What the groups of a rule that fits have caught; none where it does not fit."""
    if rule.exit not in (None, result.exit_code):
        return None
    said: list[str] = []
    for pattern, text in ((rule.stderr, result.stderr), (rule.stdout, result.stdout)):
        if pattern is None:
            continue
        caught = _caught(pattern, text)
        if caught is None:
            return None
        said += caught
    return said


def _caught(pattern: str, text: str) -> list[str] | None:
    """What a pattern's groups caught the last time that it is found; none where it is not."""
    groups = WAITS & compile_pattern(pattern).groupindex.keys()
    found = occurrences(pattern, text)
    # Without a group it says all that it is there, wherever.
    last = deque(found if groups else islice(found, 1), maxlen=1)
    return [last[0][name] for name in groups if last[0][name]] if last else None
