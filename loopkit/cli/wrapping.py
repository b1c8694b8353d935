"""Lines for a terminal, wrapped at words; for a file or a pipe they stay whole."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Iterable

import click

NARROWEST = 40


def echo_wrapped(paragraphs: Iterable[str]) -> None:
    """Print paragraphs to stdout; what is wrapped goes on under its first word."""
    width = _width()
    for paragraph in paragraphs:
        for line in paragraph.split("\n"):
            click.echo(line if width is None else wrapped(line, width))


def wrapped(line: str, width: int) -> str:
    """A line in several, none longer than `width` but for single words and commands to paste."""
    text = line.lstrip()
    if len(line) <= width or text.startswith("loopkit "):
        return line
    margin = " " * (len(line) - len(text))
    hanging = margin + "  "
    return textwrap.fill(
        text,
        width,
        initial_indent=margin,
        subsequent_indent=hanging,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _width() -> int | None:
    """Columns of the terminal that standard output is; none where it is no terminal."""
    # A closed stream is None.
    if sys.stdout is None or not sys.stdout.isatty():
        return None
    return max(shutil.get_terminal_size().columns, NARROWEST)
