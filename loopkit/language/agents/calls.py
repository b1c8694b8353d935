"""Calls: what follows where one of an agent or a program fails, or may have been made."""

from typing import Literal

from pydantic import Field

from loopkit.language.section import Duration, Noun

OnInDoubt = Literal["retry", "ask", "fail"]
ErrorClass = Literal["transient", "content", "fatal"]


class Retry(Noun):
    """How often, and how soon, a call is retried after a transient error."""

    attempts: int = Field(5, ge=1, le=100)
    """The total number of tries per call, including the first."""
    backoff: Duration = 1.0
    """The wait before the second try; it doubles with each further try."""
    max_backoff: Duration = 60.0
    """The longest wait. If the provider asks for a longer one, the run is suspended until then."""


WAITS = frozenset({"retry_after", "resume_at"})
"""The groups of a pattern under `errors:` that catch when it is worth asking again."""


class ErrorRule(Noun):
    """Maps an exit code or output of a command to a class of errors."""

    exit: int | None = None
    """The exit code."""
    stderr: str | None = None
    """A regular expression to search for in stderr. A group `retry_after` or `resume_at` captures
    when the program can be called again."""
    stdout: str | None = None
    """A regular expression to search for in stdout."""
    error_class: ErrorClass = Field(alias="class")
    """The class of the error."""
