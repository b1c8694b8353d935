"""Failures of SQLite and of the file system, with what a person can do about each."""

from __future__ import annotations

import errno
import os
import sqlite3
from contextlib import ExitStack

from loopkit.journal.errors import JournalUnusable

_DAMAGED = "the file is damaged", "restore it from a copy, or move it away to start a new one"
_FULL = "the disk is full", "free some space; what was acknowledged is safe"
_FORBIDDEN = "it cannot be written", "check who owns it and its permissions"

# By the beginning of SQLite's name for the error; the first that fits counts.
_OF_SQLITE = {
    "SQLITE_FULL": _FULL,
    "SQLITE_NOTADB": ("the file is not a SQLite database", "move it away to start a new one"),
    "SQLITE_CORRUPT": _DAMAGED,
    "SQLITE_READONLY": _FORBIDDEN,
    "SQLITE_PERM": _FORBIDDEN,
    "SQLITE_CANTOPEN": (
        "the file cannot be opened",
        "check that it is a file and that its folder can be written",
    ),
    "SQLITE_BUSY": ("another process keeps it locked", "wait for that process, or stop it"),
    "SQLITE_IOERR": (
        "reading or writing the file failed",
        "check the disk, its free space and its quotas; what was acknowledged is safe",
    ),
    "SQLITE_TOOBIG": ("a value is too large for SQLite", "record where it is instead"),
    "SQLITE_NOMEM": ("memory ran out", "run less at once"),
}

_OF_SYSTEM = {
    errno.ENOSPC: _FULL,
    errno.EDQUOT: _FULL,
    errno.EFBIG: ("a file may not get that long", "raise `ulimit -f`"),
    errno.EACCES: _FORBIDDEN,
    errno.EPERM: _FORBIDDEN,
    errno.EROFS: _FORBIDDEN,
    errno.EEXIST: (
        "there is a file where a folder is needed",
        "move it away, or choose another place",
    ),
    errno.ENOTDIR: (
        "there is a file where a folder is needed",
        "move it away, or choose another place",
    ),
    errno.EISDIR: (
        "there is a folder where a file is needed",
        "move it away, or choose another place",
    ),
    errno.EMFILE: ("too many files are open", "raise `ulimit -n`, or run less at once"),
    errno.ENFILE: ("too many files are open in the whole system", "run less at once"),
    errno.ENOLCK: ("the file system has no locks", "keep the journal on a local disk"),
    errno.ENOTSUP: ("the file system has no locks", "keep the journal on a local disk"),
}


def unusable(error: sqlite3.Error | OSError, place: str) -> JournalUnusable:
    """`error` with a message for a person: the place, the cause and the remedy; chained."""
    cause, remedy = _of_system(error) if isinstance(error, OSError) else _of_sqlite(error)
    fault = JournalUnusable(f"the journal {place} cannot be used: {cause} ({error}); {remedy}")
    fault.__cause__ = error
    return fault


def is_busy(error: sqlite3.Error) -> bool:
    """Whether another process has locked the file."""
    return _name(error).startswith("SQLITE_BUSY")


def is_full(error: Exception) -> bool:
    """Whether there may be no room left on the disk."""
    return _name(error).startswith(("SQLITE_FULL", "SQLITE_IOERR"))


def is_corrupt(error: sqlite3.Error) -> bool:
    """Whether a part of the file is not what SQLite wrote there."""
    return _name(error).startswith("SQLITE_CORRUPT")


def _name(error: Exception) -> str:
    # Errors of Python itself, such as a closed connection or text that is not UTF-8, have no name.
    return getattr(error, "sqlite_errorname", "")


def _of_sqlite(error: sqlite3.Error) -> tuple[str, str]:
    name = _name(error)
    if name.startswith("SQLITE_CANTOPEN") and (lack := _lack_of_descriptors()) is not None:
        return _of_system(lack)
    return next(
        (known for prefix, known in _OF_SQLITE.items() if name.startswith(prefix)), _DAMAGED
    )


def _lack_of_descriptors() -> OSError | None:
    """The error if too few files can be opened for a database; SQLite does not report it."""
    with ExitStack() as stack:
        try:
            for _ in range(4):
                stack.callback(os.close, os.open(os.devnull, os.O_RDONLY))
        except OSError as error:
            return error
    return None


def _of_system(error: OSError) -> tuple[str, str]:
    known = _OF_SYSTEM.get(error.errno or 0)
    return known or ("the system refused it", "check the place and its permissions")
