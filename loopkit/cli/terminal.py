"""What all commands share: options, exit codes, messages of what failed, and text for a terminal.

That is wrapped at words, and in colour; for a file or a pipe text stays as it is.
"""

from __future__ import annotations

import codecs
import io
import json
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import reduce, wraps
from inspect import signature
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

import click

if TYPE_CHECKING:
    from loopkit.document.problems import Problem

Command = TypeVar("Command", bound=Callable[..., object])


def with_options(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    return lambda command: reduce(lambda done, option: option(done), reversed(options), command)


def gather(
    name: str, make: Callable[..., Any], *options: Callable[[Any], Any]
) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Options that a command takes as one thing, which `make` makes of their values by name."""

    def gathered(command: Callable[..., int]) -> Callable[..., int]:
        @wraps(command)
        def with_one(**given: Any) -> int:
            made = make(**{k: given.pop(k) for k in signature(make).parameters if k in given})
            return command(**{name: made}, **given)

        done: Callable[..., int] = with_options(*options)(with_one)
        return done

    return gathered


UNWRAPPED = "\b"
"""Click leaves the lines of a paragraph that starts so as they are."""


def examples(*lines: str) -> str:
    heading = "Example:" if len(lines) == 1 else "Examples:"
    return "\n".join([UNWRAPPED, heading, *(f"  {line}" for line in lines)])


OK = 0
FAILURE = 1
USAGE = 2
LIMIT = 3
ERROR = 4
WAITING = 5
BUG = 70
DUE_AGAIN = 75
SIGINT = 130
SIGTERM = 143


class Stop(Exception):
    """Ends a command with an exit code, after a message to stderr."""

    def __init__(self, code: int, message: str = "") -> None:
        super().__init__(message)
        self.code = code


def misuse(message: str) -> Stop:
    """Ends a command for what a user has done wrong."""
    return Stop(USAGE, f"error: {message}")


class LossyOutput(io.FileIO):
    """The file of an output that may be lost; whoever writes to it goes on."""

    def write(self, data: Any) -> int:
        with suppress(OSError):
            # None where it would have to be waited for, if another program has set it so.
            return super().write(data) or len(data)
        return len(data)


def prepare_output() -> None:
    """Let no output end a command: not by a character that it lacks, and stderr not by a fault.

    What its encoding lacks is written as in JSON, `\\u2192`, so that JSON stays what it was. Where
    stderr is a closed pipe or on a full disk, what is written there is lost.
    """
    codecs.register_error("as_in_json", _as_in_json)
    for stream in (sys.stdout, sys.stderr):
        # One that is closed is None, and another way with such a character is a user's choice.
        usual = ("strict", "surrogateescape", "backslashreplace")
        if isinstance(stream, io.TextIOWrapper) and stream.errors in usual:
            stream.reconfigure(errors="as_in_json")
    if isinstance(sys.stderr, io.TextIOWrapper):
        sys.stderr = io.TextIOWrapper(
            io.BufferedWriter(LossyOutput(sys.stderr.fileno(), "w", closefd=False)),
            sys.stderr.encoding, sys.stderr.errors, line_buffering=True,
        )  # fmt: skip


def _as_in_json(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    return json.dumps(error.object[error.start : error.end])[1:-1], error.end


def echo(text: str = "", *, err: bool = False, nl: bool = True, color: bool | None = None) -> None:
    """Print a text to stdout, or with `err` to stderr; raises OSError if stdout takes no more."""
    # Named, since click would write UTF-8 to a stream that takes ASCII only.
    click.echo(text, sys.stderr if err else sys.stdout, nl=nl, color=color)


def say(text: str) -> None:
    echo(fit_to_terminal(text, sys.stderr), err=True)


def say_some(lines: list[str], most: int = 20) -> None:
    """Say the lines, of very many the first and how many more there are, and empty the list."""
    for line in lines[:most]:
        say(line)
    if (more := len(lines) - most) > 0:
        say(f"and {more:,} more")
    lines.clear()


@contextmanager
def report_errors() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        if (stop := stop_for(error)) is None:
            raise
        raise stop from error


def stop_for(error: Exception) -> Stop | None:
    """The Stop for an error that a user caused; none for any other error."""
    # The module of the raised error is loaded; those of other errors may not be.
    from loopkit.agents.port import Crashed, NotRunnable
    from loopkit.document.problems import ProblemsFound
    from loopkit.document.writing import NotWritable
    from loopkit.drive.answers import AnswerRefused
    from loopkit.journal.errors import JournalError, UnknownRun
    from loopkit.language.json_schema.equality import NotJudged

    match error:
        case ProblemsFound():
            return Stop(USAGE, render_problems(error.problems))
        case NotRunnable() | AnswerRefused() | UnknownRun() | NotWritable():
            return misuse(str(error))
        case NotJudged():
            return misuse(f"data could not be checked against its type: {error}")
        case ImportError(__cause__=ImportError()):
            # A library that is not installed by default.
            return misuse(str(error))
        case JournalError():
            return Stop(ERROR, f"error: {error}")
        case Crashed():
            doubt = "the call is in doubt now, and the run can be resumed"
            return Stop(ERROR, f"{error}; {doubt}")
    return None


def render_problems(problems: Sequence[Problem]) -> str:
    from loopkit.document.reading import render_found

    return render_found(problems, columns_of(sys.stderr)).rstrip("\n")


def report_bug(error: Exception) -> None:
    import traceback

    say(f"internal error: {type(error).__name__}: {error}")
    say(
        "This is a bug in loopkit. Everything stored is safe; `loopkit resume` may be able to "
        "continue from there."
    )
    echo("".join(traceback.format_exception(error)[-4:]).rstrip(), err=True)


NARROWEST = 40
EXCERPT = re.compile(r" *\d* \| |  (?:-->|:::) ")
"""The beginnings of a line of a file, a caret and a place, which are never broken."""
COMMAND = re.compile(r"( *\S.*:) +(loopkit \S.*)")
"""A hint and a command to paste, which has a line of its own where both together are too long."""
LABELS = re.compile(r"  help: |- ")
"""The beginnings of a text that is continued under its first word."""
VERDICT = r"^(?:Verdict of [^:]+: |  \d+: | +\d+\. .*\bverdict = )"
"""The texts before a verdict: in a report, in earlier rounds, in the path of a plan."""
COLOURS = (
    (r"^error(?:\[[\w-]+\])?(?=:)", "red"),
    (r"^warning(?:\[[\w-]+\])?(?=:)", "yellow"),
    (r"^note(?:\[[\w-]+\])?(?=:)", "cyan"),
    (r"^missing(?=:)", "red"),
    (r"^ *\| *(\^+)", "red"),
    (r"^  help(?=: )", "green"),
    (rf"{VERDICT}(pass)\b", "green"),
    (rf"{VERDICT}(fail)\b", "red"),
    (rf"{VERDICT}(warn|incomplete|infeasible)\b", "yellow"),
    (r"^\S+: (suspended|waiting|interrupted|cancelled)(?= at |$)", "yellow"),
    (r"^\S+  +(suspended|waiting|interrupted|cancelled|damaged|unreadable) ", "yellow"),
    (r": (ok) \(\d+\.\d+ s\)$", "green"),
    (r": (FAILED) \(\d+\.\d+ s\)$", "red"),
    (r": (can't be used)$", "red"),
    (r"(\S+) \(success\)", "green"),
    (r"(\S+) \(failure\)", "red"),
    (r"^The cost is (not known):", "yellow"),
    (r"  (unknown)$", "yellow"),
)
"""The coloured parts of a line: only a terminal needs them, so they are compiled then."""


def echo_wrapped(paragraphs: Iterable[str]) -> None:
    """Print paragraphs to stdout; what is wrapped goes on under its first word."""
    for paragraph in paragraphs:
        echo(fit_to_terminal(paragraph, sys.stdout))


def fit_to_terminal(text: str, stream: TextIO | None) -> str:
    """The text, wrapped and coloured for a terminal; unchanged for anything else."""
    width = columns_of(stream)
    if width is None:
        return text
    rows = (row for line in text.split("\n") for row in wrap(line, width).split("\n"))
    return "\n".join(map(_colour, rows))


def in_colour(row: str, stream: TextIO | None) -> str:
    return row if columns_of(stream) is None else _colour(row)


def wrap(line: str, width: int) -> str:
    """A line in several, none longer than `width` but for single words and commands to paste."""
    text = line.lstrip()
    if len(line) <= width or text.startswith("loopkit ") or EXCERPT.match(line):
        return line
    if hint := COMMAND.fullmatch(line):
        return f"{wrap(hint[1], width)}\n  {hint[2]}"
    if not text.strip("─"):
        return line[:width]
    margin = " " * (len(line) - len(text))
    label = LABELS.match(line)
    hanging = " " * label.end() if label else margin + "  "
    whole: dict[str, Any] = {"break_long_words": False, "break_on_hyphens": False}
    return textwrap.fill(text, width, initial_indent=margin, subsequent_indent=hanging, **whole)


def columns_of(stream: TextIO | None) -> int | None:
    """Columns of the terminal that a stream is; none where it is no terminal."""
    # A closed stream is None.
    if stream is None or not stream.isatty():
        return None
    return max(shutil.get_terminal_size().columns, NARROWEST)


def _colour(row: str) -> str:
    if os.environ.get("NO_COLOR") or os.environ.get("TERM", "") in ("", "dumb"):
        return row
    for pattern, colour in COLOURS:
        if found := re.search(pattern, row):
            start, end = found.span(found.lastindex or 0)
            return f"{row[:start]}{click.style(row[start:end], fg=colour)}{row[end:]}"
    return row
