"""The tables of Procrastinate, the queue that tells workers of runs: one set for a database."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import psycopg

from loopkit.journal.errors import JournalUnusable


def migrate_queue(db: psycopg.Connection[Any], place: str) -> None:
    """Make its tables, or apply those of its files that were not applied yet, in a transaction.

    Procrastinate notes nowhere which ones were; its statements name no schema. Raises
    JournalUnusable for tables that somebody else has made.
    """
    sql = files("procrastinate.sql")
    known = {file.name: file for file in (sql / "migrations").iterdir() if file.name[-4:] == ".sql"}
    db.execute("SET LOCAL search_path = public")
    made, noted = _exists(db, "procrastinate_jobs"), _exists(db, "loopkit_queue_files")
    if made and not noted:
        raise JournalUnusable(
            f"the database of the journal {place} has tables of Procrastinate in its schema "
            "`public` that another program has made; choose another database"
        )
    if not noted:
        db.execute("CREATE TABLE loopkit_queue_files (name text PRIMARY KEY)")
    applied = {name for (name,) in db.execute("SELECT name FROM loopkit_queue_files")}
    if not made:
        # It holds what all of them lead to.
        db.execute((sql / "schema.sql").read_bytes())
    for name in sorted(known.keys() - applied):
        if made:
            db.execute(known[name].read_bytes())
        db.execute("INSERT INTO loopkit_queue_files (name) VALUES (%s)", (name,))


def _exists(db: psycopg.Connection[Any], table: str) -> bool:
    return db.execute("SELECT to_regclass(%s)", (f"public.{table}",)).fetchone() != (None,)
