"""Command lines that people paste: every argument quoted as a shell wants it."""

from __future__ import annotations

import shlex


def resume_line(run: str, *arguments: str) -> str:
    """The command line that resumes a run."""
    return shlex.join(["loopkit", "resume", run, *arguments])


def delivery_line(run: str, *, is_left: bool) -> str:
    """The command line that delivers an artifact, from a file or from the workspace."""
    return shlex.join(["loopkit", "reply", run, *([] if is_left else ["FILE"])])
