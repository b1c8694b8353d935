"""A connection to a journal's database, checked and brought to this version's tables."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from loopkit.journal.errors import JournalUnusable, NoJournal
from loopkit.journal.queries import MIGRATIONS, STAND_INS

APPLICATION_ID = 0x6C6F6F70
"""`loop`, in the file's header: tells a journal from any other SQLite database."""
_BUSY_S = 10.0
_KEPT_WAL_BYTES = 64 * 2**20


def connect(path: Path, place: str) -> sqlite3.Connection:
    """A connection that may move to another thread.

    `place` is named in error messages. The caller keeps others from opening the same file
    meanwhile. Raises `sqlite3.Error`, and `JournalUnusable` for
    a database of another program or of a newer version, which it leaves untouched.
    """
    return _open(path, place, _configure, _migrate)


def connect_to_read(path: Path, place: str) -> sqlite3.Connection | None:
    """A connection to a journal that cannot be written; None if it cannot be read either.

    Readers know of writers by files beside the database. If nobody can create these, there are no
    writers, and the database is complete, unless a writer was killed and left its log. Raises
    `NoJournal` if its writer has made no tables yet.
    """
    for way in ("mode=ro", "immutable=1"):
        with suppress(sqlite3.Error, OSError):
            if way == "mode=ro" or not _has_log(path):
                return _open(f"{path.as_uri()}?{way}", place, partial(_stand_in, place=place))
    return None


def _has_log(path: Path) -> bool:
    log = path.with_name(f"{path.name}-wal")
    return log.exists() and log.stat().st_size > 0


def _open(
    path: Path | str, place: str, *steps: Callable[[sqlite3.Connection], None]
) -> sqlite3.Connection:
    db = _connect_file(path)
    try:
        _refuse_strangers(db, place)
        for step in steps:
            step(db)
    except BaseException:
        db.close()
        raise
    return db


def _connect_file(path: Path | str) -> sqlite3.Connection:
    db = sqlite3.connect(
        path,
        timeout=_BUSY_S,
        isolation_level=None,
        check_same_thread=False,
        uri=isinstance(path, str) and path.startswith("file:"),
    )
    # Text that is not UTF-8 is damaged, and must not prevent reading what is stored beside it.
    db.text_factory = partial(str, encoding="utf-8", errors="backslashreplace")
    return db


def _refuse_strangers(db: sqlite3.Connection, place: str) -> None:
    version, owner = _pragma(db, "user_version"), _pragma(db, "application_id")
    empty = not db.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
    if owner != APPLICATION_ID and not empty:
        raise JournalUnusable(
            f"the journal {place} is the database of another program; choose another folder"
        )
    if version > len(MIGRATIONS):
        raise JournalUnusable(
            f"the journal {place} was written by a newer loopkit (tables of version {version}, "
            f"this one knows {len(MIGRATIONS)}); upgrade loopkit"
        )


def _configure(db: sqlite3.Connection) -> None:
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = FULL")
    db.execute("PRAGMA foreign_keys = ON")
    db.execute(f"PRAGMA journal_size_limit = {_KEPT_WAL_BYTES}")


def _migrate(db: sqlite3.Connection) -> None:
    version = _pragma(db, "user_version")
    if version == len(MIGRATIONS):
        return
    db.execute("BEGIN IMMEDIATE")
    for statements in MIGRATIONS[version:]:
        for statement in statements:
            db.execute(statement)
    db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    db.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")
    db.execute("COMMIT")


def _stand_in(db: sqlite3.Connection, place: str) -> None:
    """Let queries of this version read an earlier version's tables; raises NoJournal without any.

    The temporary views are not stored in the journal's files.
    """
    version = _pragma(db, "user_version")
    if not version:
        raise NoJournal(place)
    for later in range(version + 1, len(MIGRATIONS) + 1):
        db.execute(STAND_INS[later])


def _pragma(db: sqlite3.Connection, name: str) -> int:
    return int(db.execute(f"PRAGMA {name}").fetchone()[0])
