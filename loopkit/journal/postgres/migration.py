"""The tables of a journal, made and changed by one command and no other."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from typing import Any, TypeVar

import psycopg

from loopkit.journal.errors import JournalError, JournalUnusable, unusable
from loopkit.journal.postgres.database import VERSION, Database
from loopkit.journal.postgres.queue import migrate_queue

T = TypeVar("T")
Db = psycopg.Connection[Any]
_LOCK = 0x6C6F6F70
"""`loop`, of the advisory lock that one migration holds at a time, in a database."""
_LONGEST_S = 120.0


def migrate(url: str) -> tuple[str, int, int]:
    """Make what is missing of a journal's tables: its place, and its version before and after.

    Whoever writes to them meanwhile is waited for, in turns that keep nobody else waiting. Raises
    JournalUnusable.
    """
    database = Database.of(url)
    return database.place, _when_free(database, _migrate), VERSION


def restored(url: str) -> str:
    """Make a journal that was restored from a copy one that nobody has known; its place.

    Raises JournalUnusable, and JournalError while a process is at work on it.
    """
    database = Database.of(url)
    _when_free(database, _restored)
    return database.place


def _when_free(database: Database, work: Callable[[Database, Db], T]) -> T:
    """What `work` gives in a transaction, begun anew while somebody else has what it locks."""
    until = time.monotonic() + _LONGEST_S
    with closing(database.connect()) as db:
        while True:
            try:
                with db.transaction():
                    db.execute("SET LOCAL lock_timeout = '2s'")
                    return work(database, db)
            except psycopg.errors.LockNotAvailable as error:
                if time.monotonic() > until:
                    raise unusable(error, database.place) from error
            except psycopg.Error as error:
                raise unusable(error, database.place) from error


def _migrate(database: Database, db: Db) -> int:
    """The version before."""
    db.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
    if (encoding := db.info.parameter_status("server_encoding")) != "UTF8":
        raise JournalUnusable(
            f"the journal {database.place} is in a database with the encoding {encoding}; "
            "create one with UTF8"
        )
    version = database.version(db) or 0
    if version > VERSION:
        database.check(db)
    schema = database.schema
    # Also "if not exists" would need the right to create one.
    if db.execute("SELECT to_regnamespace(%s)", (schema,)).fetchone() == (None,):
        db.execute(f'CREATE SCHEMA "{schema}"')
    for number in range(version, VERSION):
        for statement in database[f"migration_{number + 1}"].split(";"):
            db.execute(statement.encode())
    if version < VERSION:
        db.execute(database["set_version"].encode(), (VERSION,))
    migrate_queue(db, database.place)
    return version


def _restored(database: Database, db: Db) -> None:
    database.require(db)
    db.execute(database["lock_all"].encode())
    if working := db.execute(database["at_work"].encode()).fetchall():
        raise JournalError(
            f"a process ({working[0][0]}) is at work on the journal {database.place}; stop all "
            "processes that use it first"
        )
    for statement in database["restore"].split(";"):
        db.execute(statement.encode())
