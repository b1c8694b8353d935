"""The output of a program, shortened and cleaned for messages."""

from __future__ import annotations

import re

from loopkit.language import CommandRule
from loopkit.outside.processes import CommandResult
from loopkit.text import end_of, printable
from loopkit.validators.fault import Fault

TAIL_CHARS = 2_000
"""How much of the end of a command's output becomes the message."""

_MEASURED = re.compile(r"0x[0-9a-fA-F]+|\d+(?:\.\d+)?")
_TIMES = re.compile(
    r"0x[0-9a-fA-F]+|\d{4}-\d\d-\d\d|\b\d{1,2}(?::\d\d){1,2}(?:[.,]\d+)?"
    r"|\b\d+(?:\.\d+)?[ ]?(?:[mµun]?s|secs?|seconds?|mins?|minutes?)\b"
)
"""Addresses, dates, times of the day and durations: what differs although nothing changed."""
_PASSED = re.compile(
    r"^(?:[^\w\n\[]|_)*\[[*_]*PASS(?:ED)?[*_]*\].*\n?", re.IGNORECASE | re.MULTILINE
)
"""Lines that say that all is well, of which nobody has to mend anything."""


def tail(stdout: str, stderr: str, limit: int = TAIL_CHARS) -> str:
    """The end of what was printed, stderr after stdout, without colours and control characters."""
    printed = "\n".join(part for text in (stdout, stderr) if (part := printable(text).strip()))
    return printed if len(printed) <= limit else f"…\n{end_of(printed, limit)}"


def failure(program: str, result: CommandResult, *, but: str = "") -> Fault:
    """The defect that an exit code stands for, in the program's own last words."""
    printed = tail(_PASSED.sub("", result.stdout), _PASSED.sub("", result.stderr))
    ended = f"`{program}` ended with exit code {result.exit_code}{but}"
    message = f"{ended}:\n{printed}" if printed else f"{ended} and printed nothing"
    # Counts differ from round to round, although the defect is the same one; but more of it than
    # before anybody worked is a new one.
    everything = _TIMES.sub("#", printable(f"{result.stdout}\n{result.stderr}"))
    exact = f"exit code {result.exit_code}\n{everything}"
    steady = _MEASURED.sub("#", printed)
    return Fault(message, steady, exact=exact, value=printed, identified=False)


def no_verdict(program: str, result: CommandResult, rule: CommandRule) -> str:
    """Why an exit code says nothing of the artifact."""
    code = result.exit_code
    ended = f"exit code {code}" if code > 0 else f"signal {-code}"
    codes = ", ".join(map(str, rule.fail_codes)) or "no code"
    return (
        f"`{program}` ended with {ended}, which is not a verdict: 0 passes and {codes} fails "
        f"(see `fail_codes`){saying(result.stdout, result.stderr)}"
    )


def saying(stdout: str, stderr: str) -> str:
    """What was printed, as the rest of a sentence."""
    printed = tail(stdout, stderr, 500)
    return f"; it printed:\n{printed}" if printed else ""
