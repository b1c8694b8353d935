"""Files that a command line names, besides machines and scenarios: read, or written."""

from __future__ import annotations

import os
import stat
import sys
from contextlib import suppress
from pathlib import Path

import click

from loopkit.cli.terminal import USAGE, Stop
from loopkit.document.writing import NotWritable, replace_file

PATH = click.Path(path_type=Path)
FILE = click.Path(path_type=Path, dir_okay=False)
MOST_CHARACTERS = 50_000_000
"""The journal takes no more than this, and a device never ends."""


def read_text(path: Path) -> str:
    """The text of a file; raises Stop if it cannot be read as text."""
    try:
        with path.open(encoding="utf-8-sig") as stream:
            text = stream.read(MOST_CHARACTERS + 1)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise Stop(USAGE, f"error: `{path}` can't be read: {reason}") from error
    if len(text) > MOST_CHARACTERS:
        raise Stop(USAGE, f"error: `{path}` has more than {MOST_CHARACTERS:,} characters")
    return text


def read_stdin() -> str:
    """The text on stdin; raises Stop if it is not UTF-8."""
    try:
        text = sys.stdin.read()
        text.encode()  # Python may keep bytes that are not UTF-8 as halves of surrogate pairs
    except UnicodeError as error:
        raise Stop(USAGE, "error: stdin is not UTF-8 text") from error
    return text


def write(path: Path, data: bytes) -> None:
    """Write a file, as a whole or not at all where that can be; raises Stop."""
    try:
        if _is_replaced(path):
            replace_file(path, data)
        else:
            path.write_bytes(data)
    except (NotWritable, OSError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise Stop(USAGE, f"error: cannot write {path}: {reason}") from error


def _is_replaced(path: Path) -> bool:
    """Whether another file may take its place: a pipe, a stream of ours, a second name and a
    stranger's file stay what they are."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return path.parent.is_dir()
    is_ours = stat.S_ISREG(found.st_mode) and found.st_nlink == 1 and found.st_uid == os.geteuid()
    return is_ours and os.access(path.resolve().parent, os.W_OK) and not _is_stream(found)


def _is_stream(found: os.stat_result) -> bool:
    for number in (1, 2):
        with suppress(OSError):
            if os.path.samestat(found, os.fstat(number)):
                return True
    return False
