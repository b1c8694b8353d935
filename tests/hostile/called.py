"""One command, called in this process, and what no command may do."""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence, Set
from contextlib import redirect_stderr, redirect_stdout

from loopkit.cli import invoke

CODES = frozenset({0, 1, 2, 3, 4, 5})
"""What a command may end with; 70 would be a bug of ours."""


def called(call: Sequence[str], stdin: str = "") -> tuple[int, str]:
    """The exit code and all that was printed."""
    out, err = io.StringIO(), io.StringIO()
    before = sys.stdin
    sys.stdin = io.StringIO(stdin)
    try:
        with redirect_stdout(out), redirect_stderr(err):
            code = invoke(list(call))
    finally:
        sys.stdin = before
    return code, out.getvalue() + err.getvalue()


def undocumented(code: int, said: str, codes: Set[int] = CODES) -> str:
    """What is wrong with how a command ended, whatever it was given."""
    if code not in codes:
        return f"exit code {code}: {said[-2000:]}"
    if "Traceback" in said or "internal error" in said:
        return f"a traceback: {said[-2000:]}"
    return ""


def run_id() -> str:
    """The run that an earlier call left."""
    out = io.StringIO()
    with redirect_stdout(out), redirect_stderr(io.StringIO()):
        invoke(["runs", "ls"])
    lines = out.getvalue().splitlines()
    return lines[1].split()[0] if len(lines) > 1 else "none"
