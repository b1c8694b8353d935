"""Errors of journals: what was refused or failed, each with its remedy; and who owns a run."""

from __future__ import annotations

import errno
import time
from dataclasses import dataclass


class JournalError(Exception):
    """Something that the journal refused or could not do; the message says what and why."""


class UnknownRun(JournalError):
    def __init__(self, run: str) -> None:
        super().__init__(f"there is no run `{run}`; `loopkit runs ls` lists all runs")


class UnknownDefinition(JournalError):
    def __init__(self, digest: str) -> None:
        super().__init__(f"no definition with the digest {digest!r} is stored")


class RunExists(JournalError):
    def __init__(self, run: str) -> None:
        super().__init__(f"run {run!r} exists already; resume it, or choose another name")


@dataclass(frozen=True, slots=True)
class Owner:
    """Who claimed a run: a process with a name of its own, and since when in Unix seconds."""

    name: str
    pid: int
    host: str
    since: float

    def __str__(self) -> str:
        then = time.localtime(self.since)
        form = "%H:%M:%S" if then[:3] == time.localtime()[:3] else "%Y-%m-%d %H:%M:%S"
        return f"process {self.pid} on {self.host} since {time.strftime(form, then)}"


class RunBusy(JournalError):
    def __init__(self, run: str, owner: Owner) -> None:
        super().__init__(f"run {run!r} is being driven by {owner}; wait for it, or stop it")
        self.owner = owner


class ClaimLost(JournalError):
    """The claim has ended: it was released, or another process has claimed the run."""


class TakenOver(ClaimLost):
    def __init__(self, run: str, owner: Owner, *, epoch: int, now: int) -> None:
        super().__init__(
            f"run {run!r} was taken over by {owner}; this claim on it (epoch {epoch}, now {now}) "
            "appends nothing more"
        )


class JournalClosed(JournalError):
    def __init__(self, place: str) -> None:
        super().__init__(f"the journal {place} is closed; open it again")


class SequenceConflict(JournalError):
    def __init__(self, run: str, *, expected: int, found: int) -> None:
        super().__init__(
            f"run {run!r} stands at record {found} and not at {expected}; "
            "nothing was written: read it again before going on"
        )


class NotInInbox(JournalError):
    def __init__(self, run: str, message_id: str) -> None:
        super().__init__(
            f"message {message_id!r} does not wait in the inbox of run {run!r}; "
            "it was consumed before, or never posted: nothing was written"
        )


class MessageWaits(JournalError):
    """A message that has to be read first waits in the inbox, so nothing was written."""

    def __init__(self, run: str) -> None:
        super().__init__(f"a message waits in the inbox of run {run!r}: nothing was written")


class JournalUnusable(JournalError):
    """The storage failed: full, damaged, locked, read-only, or of a newer version."""


class NoTables(JournalUnusable):
    def __init__(self, place: str) -> None:
        super().__init__(f"the journal {place} has no tables; run `loopkit journal migrate`")


class OnlyRead(JournalUnusable):
    def __init__(self, place: str) -> None:
        super().__init__(f"the journal {place} was opened only to be read")


class LostContent(JournalError):
    """A content that a run names is missing."""


class RunUnreadable(JournalError):
    """The records of one run cannot be read; those of other runs may be intact."""

    _what, _remedy = "", ""

    def __init__(self, run: str, cause: str) -> None:
        super().__init__(f"run {run!r} is {self._what}: {cause}; {self._remedy}")
        self.cause = cause


class RunDamaged(RunUnreadable):
    _what = "damaged"
    _remedy = "restore the journal from a copy, or start a new run"


class RunOfOtherVersion(RunUnreadable):
    _what = "of another version of loopkit"
    _remedy = "use that version; if it is a newer one, upgrade this one; else start a new run"


_FULL = "the disk is full", "free some space; what was acknowledged is safe"
_FORBIDDEN = "it cannot be written", "check who owns it and its permissions"
_MISPLACED = "move it away, or choose another place"
_OTHER = "the system refused it", "check the place and its permissions"
_OF_SQLITE = {
    **dict.fromkeys(
        ("SQLITE_CORRUPT", "SQLITE_ERROR"),
        ("the file is damaged", "restore it from a copy, or move it away to start a new one"),
    ),
    "SQLITE_FULL": _FULL,
    "SQLITE_READONLY": _FORBIDDEN,
    "SQLITE_PERM": _FORBIDDEN,
    "SQLITE_NOTADB": ("the file is not a SQLite database", "move it away to start a new one"),
    "SQLITE_CANTOPEN": (
        "the file cannot be opened",
        "check that it is a file and that its folder can be written",
    ),
    "SQLITE_BUSY": ("another process keeps it locked", "wait for that process, or stop it"),
    "SQLITE_IOERR": (
        "reading or writing the file failed",
        "check the disk, its free space and its quotas; what was acknowledged is safe",
    ),
}
"""By the beginning of SQLite's name for the error."""
_OF_SYSTEM = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), _FULL),
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), _FORBIDDEN),
    **dict.fromkeys(
        (errno.EEXIST, errno.ENOTDIR), ("there is a file where a folder is needed", _MISPLACED)
    ),
    errno.EISDIR: ("there is a folder where a file is needed", _MISPLACED),
}
_AWAY = ("it is away", "start it again; what was acknowledged is safe, and runs can be resumed")
_OF_POSTGRES = {
    "53100": ("the disk of the database is full", _FULL[1]),
    "53300": ("it has no free connection", "start fewer processes, or raise max_connections"),
    "25006": ("it can only be read, as a replica can", "name its primary in the URL"),
    "42501": ("this role may not use it", "grant it the schema and all its tables and sequences"),
    "28": ("it refuses the connection", "check the URL, or wait until it has started"),
    "3D000": ("there is no such database", "check the URL, or create it"),
    "3F000": ("it has no such schema", "run `loopkit journal migrate`"),
    **dict.fromkeys(
        ("42P05", "26000"),
        ("a pooler before it keeps no prepared statements", "add `prepare=no` to the URL"),
    ),
    "42": ("its tables are not those of this loopkit", "run `loopkit journal migrate`"),
    "57014": ("a request took too long", "look for what holds its locks"),
    **dict.fromkeys(("57P", "08"), _AWAY),
}
"""By the beginning of the SQLSTATE."""


def unusable(error: Exception, place: str) -> JournalUnusable:
    """`error` with a message for a person: the place, the cause and the remedy; chained."""
    if isinstance(error, OSError):
        cause, remedy = _OF_SYSTEM.get(error.errno or 0, _OTHER)
    elif hasattr(error, "sqlstate"):
        # A connection that is refused has no state.
        state = error.sqlstate or ("28" if "FATAL" in str(error) else "08")
        known = (text for begin, text in _OF_POSTGRES.items() if state.startswith(begin))
        cause, remedy = next(known, _OTHER)
    else:
        known = (text for name, text in _OF_SQLITE.items() if is_sqlite(error, name))
        cause, remedy = next(known, _OTHER)
    said = " ".join(str(error).split())
    fault = JournalUnusable(f"the journal {place} cannot be used: {cause} ({said}); {remedy}")
    fault.__cause__ = error
    return fault


def unfit(error: Exception) -> JournalError:
    """That a text, such as the id of a run, is none that any store has."""
    return JournalError(f"a text that was given is none: {error}")


def is_sqlite(error: Exception, name: str) -> bool:
    """Whether SQLite's name for the error begins with `name`; Python's own errors have none."""
    return getattr(error, "sqlite_errorname", "").startswith(name)
