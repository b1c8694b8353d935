"""Calls: what follows where one of an agent or a program fails, or may have been made."""

from typing import Literal

from pydantic import Field

from loopkit.language.noun import Duration, Noun

OnInDoubt = Literal["retry", "ask", "fail"]
ErrorClass = Literal["transient", "content", "fatal"]


class Retry(Noun):
    """How often one call is tried again after a transient error."""

    attempts: int = Field(5, ge=1, le=100)
    """Tries of one call in all, the first included."""
    backoff: Duration = 1.0
    """Wait before the second try; it doubles from try to try."""
    max_backoff: Duration = 60.0
    """The longest wait; a provider that asks for more suspends the run until then."""


WAITS = frozenset({"retry_after", "resume_at"})
"""The groups of a pattern under `errors:` that catch when it is worth asking again."""


class ErrorRule(Noun):
    """Which exit code or output of a command means which class of error."""

    exit: int | None = None
    """The exit code."""
    stderr: str | None = None
    """A regular expression searched in stderr. A group `retry_after` or `resume_at` catches when
    the program can be asked again."""
    stdout: str | None = None
    """A regular expression searched in stdout."""
    error_class: ErrorClass = Field(alias="class")
    """What that means."""
