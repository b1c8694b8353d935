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
    """The meaning of how a program ended."""

    error_class: ErrorClass
    retry_after_s: float | None = None
    """The wait that the program asks for, where it names one."""


def ending_of(
    errors: Sequence[ErrorRule], result: CommandResult, now: datetime | None = None
) -> Ending | None:
    """The ending by the first rule that matches; None where no rule does.

    Raises PatternError and PatternTimeout.
    """
    for rule in errors:
        if (groups := _match_rule(rule, result)) is not None:
            now = now or datetime.now().astimezone()
            waits = (wait_in(text, now) for text in groups)
            return Ending(rule.error_class, next((w for w in waits if w is not None), None))
    return None


def _match_rule(rule: ErrorRule, result: CommandResult) -> list[str] | None:
    """The texts that the groups of a rule capture; None if the rule does not match."""
    if rule.exit not in (None, result.exit_code):
        return None
    groups: list[str] = []
    for pattern, text in ((rule.stderr, result.stderr), (rule.stdout, result.stdout)):
        if pattern is None:
            continue
        captured = _match_pattern(pattern, text)
        if captured is None:
            return None
        groups += captured
    return groups


def _match_pattern(pattern: str, text: str) -> list[str] | None:
    """The texts that a pattern's groups capture at its last match; None if it has none."""
    groups = WAITS & compile_pattern(pattern).groupindex.keys()
    found = occurrences(pattern, text)
    # Without a group, any match says as much as the last.
    last = deque(found if groups else islice(found, 1), maxlen=1)
    return [last[0][name] for name in groups if last[0][name]] if last else None
