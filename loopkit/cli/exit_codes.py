"""Exit codes, and the messages of commands that failed."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from loopkit.cli.wrapping import columns_of, fit_to_terminal

if TYPE_CHECKING:
    from loopkit.document.problems import Problem

OK = 0
FAILURE = 1
USAGE = 2
LIMIT = 3
ERROR = 4
WAITING = 5
BUG = 70
SIGINT = 130
SIGTERM = 143


class Stop(Exception):
    """Ends a command with an exit code, after a message to stderr."""

    def __init__(self, code: int, message: str = "") -> None:
        super().__init__(message)
        self.code = code


def say(text: str) -> None:
    """A text to stderr, where errors and hints go."""
    click.echo(fit_to_terminal(text, sys.stderr), err=True)


@contextmanager
def report_errors() -> Iterator[None]:
    """Turn errors that a user can cause into a message and an exit code."""
    try:
        yield
    except Exception as error:
        if (stop := _stop_for(error)) is None:
            raise
        raise stop from error


def _stop_for(error: Exception) -> Stop | None:
    """The Stop for an error that a user caused; none for any other error."""
    # The module of the raised error is loaded; those of other errors may not be.
    from loopkit.agents.not_runnable import NotRunnable
    from loopkit.agents.port import Crashed
    from loopkit.document.problems import ProblemsFound
    from loopkit.drive.answer_refused import AnswerRefused
    from loopkit.journal.errors import JournalError, UnknownRun
    from loopkit.language.json_schema import NotJudged

    match error:
        case ProblemsFound():
            return Stop(USAGE, render_problems(error.problems))
        case NotRunnable() | AnswerRefused() | UnknownRun():
            return Stop(USAGE, f"error: {error}")
        case NotJudged():
            return Stop(USAGE, f"error: data could not be checked against its type: {error}")
        case JournalError():
            return Stop(ERROR, f"error: {error}")
        case Crashed():
            doubt = "the call is in doubt now, and the run can be resumed"
            return Stop(ERROR, f"{error}; {doubt}")
    return None


def render_problems(problems: Sequence[Problem]) -> str:
    """Problems as text, each with its place, its line and a caret."""
    from loopkit.document.problems import render

    files = {problem.span.file for problem in problems if problem.span is not None}
    columns = columns_of(sys.stderr)
    return render(problems, {file: text_of(file) for file in files}, columns).rstrip("\n")


def text_of(file: str) -> str:
    """The text of a file with a problem, as far as it can be read."""
    from loopkit.document import MAX_BYTES

    try:
        with open(file, encoding="utf-8-sig", errors="replace") as stream:
            # The problem may be that it has no end.
            return stream.read(MAX_BYTES)
    except (OSError, ValueError):
        # Standard input, or a file that was removed: the place is shown without its line.
        return ""


def report_bug(error: Exception) -> None:
    """Say that this is a bug of loopkit, and print the end of its traceback."""
    import traceback

    say(f"internal error: {type(error).__name__}: {error}")
    say(
        "This is a bug in loopkit. Everything stored is safe; `loopkit resume` may be able to "
        "continue from there."
    )
    click.echo("".join(traceback.format_exception(error)[-4:]).rstrip(), err=True)
