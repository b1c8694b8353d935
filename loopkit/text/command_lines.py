"""Command lines that people paste: every argument quoted as a shell wants it."""

from __future__ import annotations

import shlex


def resume_line(run: str, *arguments: str) -> str:
    """The line that goes on with a run."""
    return shlex.join(["loopkit", "resume", run, *arguments])


def delivery_line(run: str, *, is_left: bool) -> str:
    """The line that delivers an artifact: a file's text, or what was left in the workspace."""
    return shlex.join(["loopkit", "reply", run, *([] if is_left else ["FILE"])])
