"""The output of a program, shortened and cleaned for messages."""

from __future__ import annotations

import re

from loopkit.language import CommandRule
from loopkit.outside.processes import CommandResult
from loopkit.text import end_of, printable
from loopkit.validators.fault import Fault

TAIL_CHARS = 2_000
"""The most characters of the end of a command's output that become the message."""

_MEASURED = re.compile(r"0x[0-9a-fA-F]+|\d+(?:\.\d+)?")
_TIMES = re.compile(
    r"0x[0-9a-fA-F]+|\d{4}-\d\d-\d\d|\b\d{1,2}(?::\d\d){1,2}(?:[.,]\d+)?"
    r"|\b\d+(?:\.\d+)?[ ]?(?:[mµun]?s|secs?|seconds?|mins?|minutes?)\b"
)
"""Addresses, dates, times of the day and durations, which differ although nothing changed."""
_PASSED = re.compile(
    r"^(?:[^\w\n\[]|_)*\[[*_]*PASS(?:ED)?[*_]*\].*\n?", re.IGNORECASE | re.MULTILINE
)
"""Lines that report a success, so that there is nothing in them to correct."""


def tail(stdout: str, stderr: str, limit: int = TAIL_CHARS) -> str:
    """The end of the output, stderr after stdout, without colours and control characters."""
    printed = "\n".join(part for text in (stdout, stderr) if (part := printable(text).strip()))
    return printed if len(printed) <= limit else f"…\n{end_of(printed, limit)}"


def failure(program: str, result: CommandResult, *, but: str = "") -> Fault:
    """The defect that an exit code stands for, with the end of the program's output."""
    printed = tail(_PASSED.sub("", result.stdout), _PASSED.sub("", result.stderr))
    ended = f"`{program}` ended with exit code {result.exit_code}{but}"
    message = f"{ended}:\n{printed}" if printed else f"{ended} and printed nothing"
    # Counts differ from round to round although the defect is the same; but if there is more of it
    # than in the baseline, it is a new one.
    everything = _TIMES.sub("#", printable(f"{result.stdout}\n{result.stderr}"))
    exact = f"exit code {result.exit_code}\n{everything}"
    steady = _MEASURED.sub("#", printed)
    return Fault(message, steady, exact=exact, value=printed, identified=False)


def no_verdict_message(program: str, result: CommandResult, rule: CommandRule) -> str:
    """The message for an exit code that is not a verdict on the artifact."""
    code = result.exit_code
    ended = f"exit code {code}" if code > 0 else f"signal {-code}"
    codes = ", ".join(map(str, rule.fail_codes)) or "no code"
    return (
        f"`{program}` ended with {ended}, which is not a verdict: 0 passes and {codes} fails "
        f"(see `fail_codes`){output_clause(result.stdout, result.stderr)}"
    )


def output_clause(stdout: str, stderr: str) -> str:
    """The end of the output, as the rest of a sentence; empty without output."""
    printed = tail(stdout, stderr, 500)
    return f"; it printed:\n{printed}" if printed else ""
