"""Text for a terminal: wrapped at words, and in colour; for a file or a pipe it stays as it is."""

from __future__ import annotations

import os
import re
import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator
from typing import TextIO

import click

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
"""The coloured parts of a line: as in the progress of a run.

Only a terminal needs them, so they are compiled then."""


def echo_wrapped(paragraphs: Iterable[str]) -> None:
    """Print paragraphs to stdout; what is wrapped goes on under its first word."""
    for paragraph in paragraphs:
        click.echo(fit_to_terminal(paragraph, sys.stdout))


def fit_to_terminal(text: str, stream: TextIO | None) -> str:
    """The text, wrapped and coloured for a terminal; unchanged for anything else."""
    width = columns_of(stream)
    if width is None:
        return text
    rows = (row for line in text.split("\n") for row in wrap(line, width).split("\n"))
    return "\n".join(map(_colour, rows))


def in_colour(row: str, stream: TextIO | None) -> str:
    """A row of a table: in colour at a terminal, and never broken."""
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
    return textwrap.fill(
        text,
        width,
        initial_indent=margin,
        subsequent_indent=hanging,
        break_long_words=False,
        break_on_hyphens=False,
    )


def columns_of(stream: TextIO | None) -> int | None:
    """Columns of the terminal that a stream is; none where it is no terminal."""
    # A closed stream is None.
    if stream is None or not stream.isatty():
        return None
    return max(shutil.get_terminal_size().columns, NARROWEST)


def _colour(row: str) -> str:
    if os.environ.get("NO_COLOR") or os.environ.get("TERM", "") in ("", "dumb"):
        return row
    return "".join(_pieces(row))


def _pieces(row: str) -> Iterator[str]:
    for pattern, colour in COLOURS:
        if found := re.search(pattern, row):
            start, end = found.span(found.lastindex or 0)
            yield row[:start]
            yield click.style(row[start:end], fg=colour)
            yield row[end:]
            return
    yield row
