"""The journal in one SQLite file that several processes share, or in memory.

In memory nothing survives, so a new run is a list there until somebody else than its owner asks for
it.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import sqlite3
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from loopkit.journal.contents import Contents, forget_removed
from loopkit.journal.errors import (
    ClaimLost,
    JournalError,
    JournalUnusable,
    MessageWaits,
    NotInInbox,
    OnlyRead,
    Owner,
    RunBusy,
    RunDamaged,
    RunExists,
    SequenceConflict,
    UnknownDefinition,
    UnknownRun,
    is_sqlite,
    unusable,
)
from loopkit.journal.files import (
    DATABASE,
    SQL,
    ProcessLock,
    View,
    Work,
    Writer,
    connect,
    connect_to_read,
    open_folder,
)
from loopkit.journal.records import (
    CLAIMED,
    FORMAT,
    MAX_INTEGER,
    Due,
    History,
    InboxMessage,
    NewRecord,
    Place,
    Placed,
    Record,
    RunRow,
    Settlement,
    SharedLimits,
    Standing,
    owner_of,
    refuse_format,
    refuse_impossible,
    refuse_records,
    refuse_text,
    refuse_texts,
    refuse_time,
)

T = TypeVar("T")
_LONGEST_START_S = 5.0
"""The longest that the start of a program may take on a busy machine."""
_LOOK_AGAIN_S = 0.02
_PAGES_AT_ONCE = 1000
"""The pages that are given back in one transaction, which takes some hundredths of a second."""
_LET_OTHERS_WRITE_S = 0.02
"""Longer than a writer that waits for another one takes to look again."""
_MOST_PLACED = 500
_MOST_CHARACTERS = 4_000_000
"""The characters of records to read at once; the last record may exceed them."""


def open_sqlite(
    folder: Path | None, clock: Callable[[], float], *, readonly: bool
) -> SqliteJournal:
    """The journal of a state folder, or without one in memory; see `open_journal`."""
    if folder is None:
        writer = Writer(connect(":memory:", "in memory"), "in memory", None)
        return SqliteJournal(None, writer, ProcessLock("memory"), clock)
    place, path = str(folder), folder.absolute() / DATABASE
    watcher = ProcessLock("", folder / "locks")
    try:
        if readonly:
            view = View(path, place)
            return SqliteJournal(folder, _reader(view, place), watcher, clock, view)
        connection, lock = open_folder(folder.absolute(), place)
    except (sqlite3.Error, OSError) as error:
        fault = unusable(error, place)
        try:
            found = connect_to_read(path, place)
        except JournalUnusable:
            found = None
        if found is None:
            raise fault from error
        return SqliteJournal(folder, Writer(found, place, path, fault), watcher, clock)
    except ValueError as error:
        raise JournalUnusable(f"{place!r} cannot be a folder: {error}") from error
    return SqliteJournal(folder, Writer(connection, place, path), lock, clock)


def _reader(view: View, place: str) -> Writer:
    return Writer(view.connection, place, view.path if view.exists else None, OnlyRead(place))


class _Stored(NamedTuple):
    row: int
    epoch: int
    seq: int
    version: int
    """The version of the file at which the run was last seen like this."""


class SqliteClaim:
    def __init__(
        self,
        journal: SqliteJournal,
        run: str,
        stored: _Stored | None,
        due: float | None = None,
        new: tuple[str, str, str | None] = ("", "", None),
    ) -> None:
        """`new` are the machine, definition and labels of a run that is not stored yet."""
        self._journal = journal
        self._writer = journal.writer
        self.run = run
        self._stored = stored
        self.due = due
        self._new = new
        self._buffer: list[NewRecord] = []
        """All records of a new run in memory, until somebody asks for them."""
        self._fault: JournalError | None = None
        """Why these could not be stored; nothing can follow them then."""
        self._lock = asyncio.Lock()
        self.is_released = False
        self._writer.claims += stored is not None

    @property
    def epoch(self) -> int:
        return self._stored.epoch if self._stored else 1

    @property
    def seq(self) -> int:
        return self._stored.seq if self._stored else len(self._buffer)

    def on_loss(self, tell: Callable[[ClaimLost], None]) -> None:
        """The lock of a file is never lost."""

    async def append(
        self,
        records: Sequence[NewRecord],
        consumes: Sequence[str] = (),
        *,
        releases: bool = False,
        due: float | None = None,
        unless: Sequence[str] = (),
        settles: Sequence[Settlement] = (),
    ) -> int:
        records, consumes = tuple(records), tuple(consumes)
        refuse_records(records, consumes)
        # Nobody can have posted a message to a new run, so its records may stay in memory.
        is_kept = self._stored is None and not self._journal.keeps_texts and not consumes
        if is_kept and not self._lock.locked():
            self._refuse_ended()
            self._writer.refuse_closed()
            if not self._buffer:
                self._journal.add_buffered(self)
                self._buffer.append(self._journal.claimed())
            self._buffer += records
            self.is_released, self.due = releases, due if releases or due is not None else self.due
            return self.seq
        async with self._lock:
            self._refuse_ended()
            # One object for each of a thousand runs; a function with cells would be eight.
            work = partial(self._append, records, consumes, releases, due, unless)
            job = self._writer.write(work)
            try:
                await job
            finally:
                # Also for a cancelled caller, because the records are written.
                if job.has_succeeded:
                    self._take(job.result(), releases=releases)
            return self.seq

    def _refuse_ended(self) -> None:
        if self._fault is not None:
            raise self._fault
        if self.is_released:
            raise ClaimLost(f"this claim on run {self.run!r} was released; claim the run again")

    def flush(self) -> None:
        """Store the records that were kept in memory, and go on in the database.

        Raises JournalError if one of them cannot be written as text.
        """
        job = self._writer.write(partial(self._append, (), (), self.is_released, self.due, ()))
        try:
            self._take(job.result(), releases=self.is_released)
        except Exception as error:
            self._fault = JournalError(f"run {self.run!r} cannot be stored: {error}")
            raise self._fault from error
        self._buffer = []

    def _take(self, stored: _Stored, *, releases: bool) -> None:
        if self._stored is None:
            self._writer.claims += 1
        if releases:
            self._writer.claims -= 1
        self._stored = stored
        self.is_released = releases

    def _append(
        self,
        records: Sequence[NewRecord],
        consumes: Sequence[str],
        releases: bool,
        due: float | None,
        unless: Sequence[str],
        db: sqlite3.Connection,
    ) -> _Stored:
        version = self._writer.version
        if self._stored is None:
            records = (*(self._buffer or (self._journal.claimed(),)), *records)
            # It is as old as the first record behind its claim, if there is one.
            values = (self.run, *self._new, records[:2][-1].at, self._journal.owner, FORMAT)
            made = db.execute(SQL["insert_run"], values)
            if not made.rowcount or made.lastrowid is None:
                raise RunExists(self.run)
            row, epoch, seq = made.lastrowid, 1, 0
        else:
            row, epoch, seq, seen = self._stored
            if seen != version:
                self._refuse_others(db, self._stored)
        seq = _insert(db, row, epoch, seq, records)
        for message in consumes:
            if not db.execute(SQL["consume"], (seq, row, message)).rowcount:
                raise NotInInbox(self.run, message)
        if _waits(db, row, unless):
            raise MessageWaits(self.run)
        if releases:
            self._journal.disown(db, row, due)
        elif due is not None:
            db.execute(SQL["set_due"], (due, row))
        return _Stored(row, epoch, seq, version)

    def _refuse_others(self, db: sqlite3.Connection, known: _Stored) -> None:
        """Raise ClaimLost or SequenceConflict if others have written to the run."""
        seq, epoch = _head(db, known.row, self.run)[:2]
        if epoch != known.epoch:
            raise ClaimLost(
                f"run {self.run!r} was taken over by {_newest_owner(db, known.row)}; this claim "
                f"on it (epoch {known.epoch}, now {epoch}) appends nothing more"
            )
        if seq != known.seq:
            raise SequenceConflict(self.run, expected=known.seq, found=seq)

    async def inbox(self) -> list[InboxMessage]:
        if self._stored is None:
            self._writer.refuse_closed()
            return []
        row = self._stored.row
        return await self._writer.read(lambda db: _inbox(db, row))

    async def release(self, unless: Sequence[str] = (), *, due: float | None = None) -> bool:
        async with self._lock:
            # A closed journal has released all its claims.
            if self.is_released or self._writer.closed:
                return True
            stored = self._stored
            if stored is None:
                self.is_released, self.due = True, due
                return True

            def work(db: sqlite3.Connection) -> bool:
                if _waits(db, stored.row, unless):
                    return False
                self._journal.disown(db, stored.row, due)
                return True

            job = self._writer.write(work)
            try:
                return await job
            finally:
                if job.has_succeeded and job.result():
                    self._take(stored, releases=True)


class SqliteJournal:
    era: object = 0
    limits: SharedLimits | None = None

    def __init__(
        self,
        folder: Path | None,
        writer: Writer,
        lock: ProcessLock,
        clock: Callable[[], float],
        view: View | None = None,
    ) -> None:
        """With a `view` it only reads."""
        self._folder = folder
        self.writer = writer
        self.lock = lock
        self.owner = lock.name
        self.now = clock
        self._view = view
        self.contents = Contents(folder)
        self.keeps_texts = folder is not None
        self._buffered: dict[str, SqliteClaim] = {}
        """The claims that keep all records of their run, by run; only in memory."""
        self._opening = asyncio.Lock()
        self._here = json.dumps({"pid": os.getpid(), "host": os.uname().nodename})
        self._has_stored = False
        """Whether a run may be about to begin here with a stored definition."""

    async def _read(self, work: Work[T]) -> T:
        self._flush()
        if self._view is not None and not self._view.is_current():
            async with self._opening:
                if not self._view.is_current():
                    await self._open_again(self._view)
        return await self.writer.read(work)

    async def _open_again(self, before: View) -> None:
        writer, place = self.writer, str(self._folder)
        # A locked file is waited for in a thread, so that the event loop goes on.
        self._view = await asyncio.to_thread(View, before.path, place)
        self.writer = _reader(self._view, place)
        # A file that was written to while no writers were seen is the same journal.
        if before.exists and not self._view.is_of_same_file(before):
            self.era = object()
        await writer.close()
        self.contents.close()

    async def _write(self, work: Work[T]) -> T:
        self._flush()
        return await self.writer.write(work)

    def add_buffered(self, claim: SqliteClaim) -> None:
        """Let a claim keep the records of its new run until they are asked for; raises RunExists.

        A step in memory would take more than twice as long if its records were stored at once.
        """
        if claim.run in self._buffered or self.writer.look(partial(_has, claim.run)):
            raise RunExists(claim.run)
        self._buffered[claim.run] = claim

    def _flush(self) -> None:
        for run, claim in [*self._buffered.items()]:
            # First, so that one that cannot be stored keeps nobody else from the journal.
            del self._buffered[run]
            claim.flush()

    def begin(
        self, run: str, *, machine: str, definition: str, needs: Sequence[str] | None = None
    ) -> SqliteClaim:
        refuse_texts("the name of the {}", run=run, machine=machine, definition=definition)
        return SqliteClaim(self, run, None, new=(machine, definition, _labels(needs)))

    async def claim(self, run: str) -> SqliteClaim:
        until_s = time.monotonic() + _LONGEST_START_S
        while True:
            try:
                return await self._claim(run)
            except RunBusy as busy:
                # A process that starts a program shares its locks with it until it has started, and
                # may be killed just then: the lock is free in a moment.
                if _may_live(busy.owner) or time.monotonic() > until_s:
                    raise
            await asyncio.sleep(_LOOK_AGAIN_S)

    async def _claim(self, run: str) -> SqliteClaim:
        def work(db: sqlite3.Connection) -> tuple[_Stored, float | None]:
            row = self._row_to_own(db, run)
            seq, epoch = _head(db, row, run)[:2]
            due, known = db.execute(SQL["own"], (self.owner, FORMAT, row)).fetchone()
            refuse_format(run, known)
            seq = _insert(db, row, epoch + 1, seq, [self.claimed()])
            return _Stored(row, epoch + 1, seq, self.writer.version), due

        self._flush()
        job = self.writer.write(work)
        try:
            return SqliteClaim(self, run, *await job)
        except asyncio.CancelledError:
            # Nobody got this claim, so nobody else would ever release it.
            if job.has_succeeded:
                stored, due = job.result()
                await SqliteClaim(self, run, stored).release(due=due)
            raise

    def claimed(self) -> NewRecord:
        """The record that this process owns a run from now on."""
        return NewRecord(CLAIMED, self.now(), self._here)

    def disown(self, db: sqlite3.Connection, row: int, due: float | None) -> None:
        values = {"id": row, "owner": self.owner, "due": due, "now": self.now()}
        db.execute(SQL["disown"], values)

    def _row_to_own(self, db: sqlite3.Connection, run: str) -> int:
        """The row of a run without a living owner; raises UnknownRun and RunBusy."""
        row, owner = _find(db, run)
        if owner is not None and self.lock.is_alive(owner):
            raise RunBusy(run, _newest_owner(db, row))
        return row

    async def submit(self, run: str, needs: Sequence[str] = ()) -> None:
        values = {"needs": _labels(needs), "now": self.now()}
        await self._write(lambda db: db.execute(SQL["submit"], {"id": _find(db, run)[0], **values}))

    async def due(
        self, limit: int = 1000, labels: Sequence[str] = (), *, every: bool = False
    ) -> list[Due]:
        wanted = {"now": self.now(), "labels": _labels(labels), "every": every, "format": FORMAT}

        def work(db: sqlite3.Connection) -> list[Due]:
            rows = db.execute(SQL["due"], wanted).fetchall()
            free = (row for row in rows if row[1] is None or not self.lock.is_alive(row[1]))
            return [Due(str(run), since) for run, _, since in islice(free, limit)]

        return await self._read(work)

    async def is_submitted(self, run: str) -> bool:
        refuse_text("the name of the run", run)
        found = await self._read(lambda db: db.execute(SQL["is_submitted"], (run,)).fetchone())
        return found is not None

    async def mailed(self) -> list[str]:
        # Nobody can have posted a message to a run that is not stored yet.
        work = SQL["mailed"], (self.owner,)
        return await self.writer.read(lambda db: [str(run) for (run,) in db.execute(*work)])

    async def heed_hints(self, heed: Callable[[], Awaitable[None]]) -> None:
        """Nobody gives any."""

    async def standings(self) -> list[Standing]:
        def work(db: sqlite3.Connection) -> list[Standing]:
            owners = (owner for (owner,) in db.execute(SQL["owners"]).fetchall())
            alive = json.dumps([owner for owner in owners if self.lock.is_alive(owner)])
            found = db.execute(SQL["standings"], {"now": self.now(), "alive": alive})
            return [Standing(*one) for one in found.fetchall()]

        return await self._read(work)

    async def has(self, run: str) -> bool:
        if run in self._buffered:
            return True
        work = partial(_has, run)
        if not self.keeps_texts:
            return self.writer.look(work)
        return await self._read(work)

    async def read(self, run: str, after: int = 0, limit: int | None = None) -> list[Record]:
        def work(db: sqlite3.Connection) -> list[Record]:
            row = _find(db, run)[0]
            with _corruption_is_damage(run):
                _sound_head(db, row, run)
                return list(_records(db, row, run, after, limit))

        return await self._read(work)

    async def runs(
        self,
        machine: str | None = None,
        limit: int = 1000,
        *,
        run: str | None = None,
        children: bool = False,
        before: str | None = None,
        skipping: Sequence[str] = (),
    ) -> list[RunRow]:
        for text in (machine, run, before, *skipping):
            refuse_text("a filter of runs", text or "")
        wanted = {"machine": machine, "run": run, "children": children, "before": before}

        def work(db: sqlite3.Connection) -> list[RunRow]:
            # A cursor that is left open would keep the log from being written back.
            with closing(db.execute(SQL["runs"], wanted)) as rows:
                kept = (
                    row for row in rows if not (skipping and _last_type(db, row[0]) in skipping)
                )
                listed = list(islice(kept, min(max(limit, 0), MAX_INTEGER)))
            return [self._run_row(db, row, _sound_head) for row in listed]

        return await self._read(work)

    async def histories(
        self, machine: str | None = None, *, before: int | None = None, limit: int = 50
    ) -> list[History]:
        refuse_text("a filter of runs", machine or "")
        wanted = {"machine": machine, "before": before, "limit": limit}

        def work(db: sqlite3.Connection) -> list[History]:
            rows = db.execute(SQL["histories"], wanted).fetchall()
            return [self._history(db, row) for row in rows]

        return await self._read(work)

    def _history(self, db: sqlite3.Connection, row: tuple[Any, ...]) -> History:
        records: list[Record] = []

        def read_all(db: sqlite3.Connection, row_id: int, run: str) -> Record:
            for place, record in enumerate(_records(db, row_id, run), 1):
                if record.seq != place:
                    raise RunDamaged(run, f"record {place} is missing")
                records.append(record)
            if not records:
                raise RunDamaged(run, "it has no records")
            return records[-1]

        listed = self._run_row(db, row, read_all)
        return History(row[0], listed, () if listed.damage else records)

    def _run_row(
        self,
        db: sqlite3.Connection,
        row: tuple[Any, ...],
        head: Callable[[sqlite3.Connection, int, str], tuple[Any, ...]],
    ) -> RunRow:
        row_id, run, machine, definition, created_at, owner = row
        # SQLite checks the types of columns when they are written, and not when they are read.
        if None in row[1:5]:
            damage = RunDamaged(str(run), f"row {row_id} of the runs is not what was written")
            return RunRow(str(run), "", "", 0.0, 0.0, 0, False, damage)
        is_driven = owner is not None and self.lock.is_alive(owner)
        try:
            with _corruption_is_damage(run):
                seq, _, at = head(db, row_id, run)[:3]
        except RunDamaged as error:
            return RunRow(run, machine, definition, created_at, created_at, 0, is_driven, error)
        return RunRow(run, machine, definition, created_at, at, seq, is_driven)

    async def find_runs(self, beginning: str, limit: int = 1000) -> list[str]:
        refuse_text("the beginning of an id", beginning)
        values = {"beginning": beginning, "limit": min(max(limit, 0), MAX_INTEGER)}
        return await self._read(
            lambda db: [str(run) for (run,) in db.execute(SQL["named"], values)]
        )

    async def records_after(self, after: Place, family: str | None = None) -> list[Placed]:
        refuse_text("the name of the run", family or "")
        values = {"row": after[0] if after else 0, "family": family, "limit": _MOST_PLACED}
        query = SQL["written" if family is None else "written_by_family"]

        def work(db: sqlite3.Connection) -> list[Placed]:
            found, size = [], 0
            # A cursor that is left open would keep the log from being written back.
            with closing(db.execute(query, values)) as rows:
                for row, run, *record in rows:
                    found.append(Placed(Place((row,)), str(run), Record(*record)))
                    size += len(str(found[-1].record.data))
                    if len(found) == _MOST_PLACED or size > _MOST_CHARACTERS:
                        break
            return found

        return await self._read(work)

    async def newest(self) -> Place:
        return await self._read(_newest)

    def place_in(self, text: str) -> Place | None:
        is_row = re.fullmatch("[0-9]{1,18}", text)
        return Place((int(text),)) if is_row else None

    async def remove(self, *runs: str) -> None:
        above = tuple(f"{run}/" for run in runs)
        family = {n: claim for n, claim in self._buffered.items() if f"{n}/".startswith(above)}
        if family.keys() >= {*runs} and all(claim.is_released for claim in family.values()):
            for run in family:
                del self._buffered[run]
        else:
            await self._write(lambda db: self._remove(db, runs))
        await forget_removed(self.contents, self.has)
        if self._folder is not None:
            # The runs are removed, also where a full disk or somebody who writes keeps their room.
            with suppress(JournalError):
                await self._give_room_back()

    async def _give_room_back(self) -> None:
        """Shrink the file by what was removed, in steps between which others can write."""
        before = 0
        while (left := await self.writer.write(_shrink)) not in (0, before):
            before = left
            await asyncio.sleep(_LET_OTHERS_WRITE_S)
        await self.writer.read(lambda db: db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone())

    def _remove(self, db: sqlite3.Connection, runs: Sequence[str]) -> None:
        before = _newest(db)
        for run in runs:
            _find(db, run)
            family = db.execute(SQL["family"], {"run": run}).fetchall()
            for row in [self._row_to_own(db, name) for (name,) in family]:
                db.execute(SQL["remove"], (row,))
        db.execute(SQL["note_removal"], before)
        # A definition is stored before its run. A process that opens the journal from now on stores
        # it after this transaction, and one that has opened it before is seen.
        if not self._has_stored and self.lock.is_alone():
            db.execute(SQL["remove_definitions"])

    async def store_definition(self, digest: str, text: str) -> None:
        refuse_text("the digest of a definition", digest)
        refuse_text(f"the definition {digest}", text)
        self._has_stored = True
        await self._write(lambda db: db.execute(SQL["store_definition"], (digest, text)))

    async def definition(self, digest: str) -> str:
        refuse_text("the digest of a definition", digest)
        found = await self._read(lambda db: db.execute(SQL["definition"], (digest,)).fetchone())
        if found is None:
            raise UnknownDefinition(digest)
        return str(found[0])

    async def post(self, run: str, kind: str, message_id: str, data: str, at: float) -> str | None:
        refuse_texts("the {} of a message", run=run, kind=kind, id=message_id, data=data)
        refuse_time("a message", at)

        def work(db: sqlite3.Connection) -> str | None:
            row = _find(db, run)[0]
            if db.execute(SQL["post"], (row, message_id, kind, data, at)).rowcount:
                db.execute(SQL["hasten"], {"id": row, "now": self.now()})
                return None
            return str(db.execute(SQL["posted"], (row, message_id)).fetchone()[0])

        return await self._write(work)

    async def close(self) -> None:
        self._buffered.clear()
        try:
            await self.writer.close()
        finally:
            self.contents.close()
            self.lock.release()


def _shrink(db: sqlite3.Connection) -> int:
    """Give pages of the file back; how many of those that are free are left."""
    for _ in range(_PAGES_AT_ONCE):
        # Python makes one step of it, which gives back one page.
        db.execute("PRAGMA incremental_vacuum")
    return int(db.execute("PRAGMA freelist_count").fetchone()[0])


def _has(run: str, db: sqlite3.Connection) -> bool:
    refuse_text("the name of the run", run)
    return db.execute(SQL["run"], (run,)).fetchone() is not None


def _labels(labels: Sequence[str] | None) -> str | None:
    for label in labels or ():
        refuse_text("a label", label)
    return None if labels is None else json.dumps([*labels])


def _inbox(db: sqlite3.Connection, row: int) -> list[InboxMessage]:
    return [InboxMessage(*message) for message in db.execute(SQL["inbox"], (row,))]


def _waits(db: sqlite3.Connection, row: int, kinds: Sequence[str]) -> bool:
    return bool(kinds) and any(message.kind in kinds for message in _inbox(db, row))


def _insert(
    db: sqlite3.Connection, row: int, epoch: int, seq: int, records: Sequence[NewRecord]
) -> int:
    rows = [(row, n, epoch, new.at, new.type, new.text) for n, new in enumerate(records, seq + 1)]
    db.executemany(SQL["append"], rows)
    return seq + len(records)


def _find(db: sqlite3.Connection, run: str) -> tuple[int, str | None]:
    refuse_text("the name of the run", run)
    row: tuple[int, str | None] | None = db.execute(SQL["run"], (run,)).fetchone()
    if row is None:
        raise UnknownRun(run)
    return row


def _newest(db: sqlite3.Connection) -> Place:
    return Place(db.execute(SQL["newest"]).fetchone())


def _records(
    db: sqlite3.Connection, row: int, run: str, after: int = 0, limit: int | None = None
) -> Iterator[Record]:
    behind = min(max(after, 0), MAX_INTEGER)
    for record in db.execute(SQL["read"], (row, behind, -1 if limit is None else limit)):
        refuse_impossible(run, *record[:3])
        yield Record(*record)


def _head(db: sqlite3.Connection, row: int, run: str) -> tuple[int, int, float, str]:
    """The number, epoch, time and type of the newest record of a run."""
    head: tuple[int, int, float, str] | None = db.execute(SQL["head"], (row,)).fetchone()
    if head is None:
        raise RunDamaged(run, "it has no records")
    refuse_impossible(run, *head[:3])
    return head


def _sound_head(db: sqlite3.Connection, row: int, run: str) -> tuple[int, int, float, str]:
    missing = db.execute(SQL["missing"], (row,)).fetchone()
    if missing is not None:
        raise RunDamaged(run, f"record {missing[0]} is missing")
    return _head(db, row, run)


def _last_type(db: sqlite3.Connection, row: int) -> str | None:
    """The type of the last record of a run; None if it cannot be read."""
    try:
        head = db.execute(SQL["head"], (row,)).fetchone()
    except sqlite3.DatabaseError as error:
        if not is_sqlite(error, "SQLITE_CORRUPT"):
            raise
        return None
    return None if head is None else head[3]


@contextmanager
def _corruption_is_damage(run: str) -> Iterator[None]:
    """Raise RunDamaged for a damaged page: only the run whose records are on it is damaged."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        if not is_sqlite(error, "SQLITE_CORRUPT"):
            raise
        raise RunDamaged(run, f"its records cannot be read ({error})") from error


def _may_live(owner: Owner) -> bool:
    """Whether the process of an owner may exist; one of another host may."""
    try:
        if owner.host == os.uname().nodename:
            os.kill(owner.pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _newest_owner(db: sqlite3.Connection, row: int) -> Owner:
    return owner_of(db.execute(SQL["newest_claim"], (row, CLAIMED)).fetchone())
