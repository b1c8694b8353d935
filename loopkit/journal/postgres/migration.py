"""The tables of a journal, made and changed by one command and no other; and copies of journals.

A run is copied with its children in one transaction, after the trees that they have kept. So a copy
that was killed goes on where it was.
"""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import psycopg

from loopkit.journal.contents import host_label
from loopkit.journal.errors import JournalError, JournalUnusable, unusable
from loopkit.journal.files import SQL, is_unused, made
from loopkit.journal.postgres.database import VERSION, Database, portions
from loopkit.journal.postgres.queue import migrate_queue
from loopkit.journal.postgres.store import SharedContents
from loopkit.journal.records import MAX_INTEGER, RunRow
from loopkit.journal.sqlite import SqliteJournal, open_sqlite
from loopkit.text.run_ids import root_of

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
        database.require(db)
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


_RECORDS_AT_ONCE = 20
"""Each may have 50 MB."""


async def copy(folder: Path, url: str) -> tuple[str, int, int]:
    """The place of the target, and how many runs were copied there, now and by an earlier call.

    The state folder stays as it is. Raises JournalUnusable and RunDamaged, and JournalError where a
    run is driven, or where one in the target is not a copy, or all are.
    """
    database = Database.of(url)
    if is_unused(folder):
        raise JournalUnusable(f"there is no journal in {str(folder)!r}; name a state folder")
    with closing(database.connect()) as db:
        database.require(db)
        source = open_sqlite(folder, time.time, readonly=True)
        shared = SharedContents(database, folder=folder)
        try:
            done = await _Copying(source, str(folder), database, db, shared).copy()
        except psycopg.Error as error:
            raise unusable(error, database.place) from error
        finally:
            shared.close()
            await source.close()
        return database.place, *done


@dataclass
class _Copying:
    source: SqliteJournal
    folder: str
    database: Database
    db: psycopg.Connection[Any]
    shared: SharedContents
    """It has the trees of the source."""

    async def copy(self) -> tuple[int, int]:
        before = await self.source.newest()
        runs = await self._runs()
        known = await self._known({row.run: row for row in runs})
        if runs and len(known) == len(runs):
            place = self.database.place
            raise JournalError(f"all {len(runs):,} runs of {self.folder!r} are in {place} already")
        for (digest,) in await self._read("digests"):
            text = await self.source.definition(digest)
            self._ask("store_definition", digest=digest, text=text)
        trees = defaultdict[str, list[tuple[str, str]]](list)
        for digest, run in self.source.contents.kept():
            trees[root_of(run)].append((run, digest))
        families = defaultdict[str, list[RunRow]](list)
        for row in runs:
            families[root_of(row.run)].append(row)
        for root in [one for one in families if one not in known]:
            are_shared = [self._copy_tree(*tree) for tree in trees[root]]
            needs = [] if all(are_shared) else [host_label()]
            with self.db.transaction():
                for row in families[root]:
                    await self._copy_run(row, needs)
        if await self.source.newest() != before:
            raise JournalError(
                f"somebody has written to {self.folder!r} meanwhile; remove what was copied, "
                "stop the processes that use the folder, and copy it again"
            )
        return len(runs) - len(known), len(known)

    async def _runs(self) -> list[RunRow]:
        found = await self.source.runs(limit=MAX_INTEGER, children=True)
        for row in found:
            if row.is_driven:
                raise JournalError(
                    f"run {row.run!r} of {self.folder!r} is being driven; stop its process first"
                )
        return found[::-1]

    async def _known(self, runs: dict[str, RunRow]) -> set[str]:
        """The runs that an earlier call has copied; raises JournalError for others."""
        known = self._ask("known_runs", [*runs])
        for run, row_id, *kept in known:
            row = runs[run]
            newest = await self.source.read(run, row.seq - 1, 1)
            is_copy = kept == [row.machine, row.definition, row.created_at]
            if not is_copy or self._ask("record", row_id, row.seq) != newest:
                raise JournalError(
                    f"the journal {self.database.place} has a run {run!r} that is not a copy of "
                    f"that of {self.folder!r}; remove it there, or give another `?schema=NAME`"
                )
        return {run for run, *_ in known}

    def _copy_tree(self, run: str, digest: str) -> bool:
        """Whether all hosts can have it; where it is too much, this one has it."""
        if self.shared.share(run, digest):
            return True
        here, source = SharedContents(self.database), self.source.contents
        with made(here.state):
            ids = source.objects(digest)
            here.add(run, digest, ids[0], zip(ids, source.packed(ids), strict=True))
        return False

    async def _copy_run(self, row: RunRow, labels: Sequence[str]) -> None:
        [(*kept, due, needs)] = await self._read("to_copy", row.run)
        [head] = await self.source.read(row.run, row.seq - 1, 1)
        needed = [*json.loads(needs or "[]"), *labels]
        values = row.run, *kept, due, needs is not None, needed, head.epoch
        [(row_id,)] = self._ask("copy_run", *values)
        for after in range(0, row.seq, _RECORDS_AT_ONCE):
            part = await self.source.read(row.run, after, _RECORDS_AT_ONCE)
            for columns in portions((row_id, *record) for record in part):
                self._ask("insert_records", *columns)
        for message in await self._read("all_messages", row.run):
            self._ask("copy_message", row_id, *message)

    async def _read(self, name: str, *values: str) -> list[tuple[Any, ...]]:
        return await self.source.writer.read(lambda db: db.execute(SQL[name], values).fetchall())

    def _ask(self, name: str, *values: Any, **named: Any) -> list[tuple[Any, ...]]:
        return self.database.ask(self.db, name, named or values)
