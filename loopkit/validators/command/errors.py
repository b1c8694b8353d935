"""`errors:`: exit codes and outputs of a program → classes of errors."""

from __future__ import annotations

from collections.abc import Sequence

from loopkit.engine.findings import ErrorClass
from loopkit.language import ErrorRule
from loopkit.outside.processes import CommandResult
from loopkit.text.patterns import occurrences


def error_class_of(errors: Sequence[ErrorRule], result: CommandResult) -> ErrorClass | None:
    """The class of the first rule that fits; none where no rule does.

    Raises PatternError and PatternTimeout.
    """
    fitting = (rule.error_class for rule in errors if _fits(rule, result))
    return next(fitting, None)


def _fits(rule: ErrorRule, result: CommandResult) -> bool:
    return (
        (rule.exit is None or rule.exit == result.exit_code)
        and _is_in(rule.stderr, result.stderr)
        and _is_in(rule.stdout, result.stdout)
    )


def _is_in(pattern: str | None, text: str) -> bool:
    return pattern is None or next(occurrences(pattern, text), None) is not None
