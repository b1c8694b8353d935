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
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from loopkit.journal.contents import Contents, forget_removed
from loopkit.journal.errors import (
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
    TakenOver,
    UnknownRun,
    unusable,
)
from loopkit.journal.files import (
    DATABASE,
    SQL,
    Job,
    ProcessLock,
    View,
    Work,
    Writer,
    connect,
    connect_to_read,
    open_folder,
)
from loopkit.journal.port import EMPTY, MOST_BYTES, Claim, Journal
from loopkit.journal.records import (
    CLAIMED,
    FORMAT,
    Change,
    NewRecord,
    Place,
    Placed,
    Record,
    owner_of,
    refuse_format,
    refuse_texts,
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


def open_sqlite(
    folder: Path | None, clock: Callable[[], float], *, readonly: bool
) -> SqliteJournal:
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


class SqliteJournal(Journal):
    def __init__(
        self,
        folder: Path | None,
        writer: Writer,
        lock: ProcessLock,
        clock: Callable[[], float],
        view: View | None = None,
    ) -> None:
        """With a `view` it only reads."""
        super().__init__(clock)
        self._folder = folder
        self.writer = writer
        self.lock = lock
        self._view = view
        self.contents = Contents(folder)
        self.keeps_texts = folder is not None
        self._buffered: dict[str, tuple[Claim, list[NewRecord]]] = {}
        """The claims whose records are all in a list, by run; only in memory."""
        self._opening = asyncio.Lock()
        self._has_stored = False
        """Whether a run may be about to begin here with a stored definition."""

    @property
    def owner(self) -> str:
        return self.lock.name

    async def look(self, name: str, values: Any = ()) -> list[tuple[Any, ...]]:
        return await self._read(partial(self._rows, name, values))

    async def execute(self, name: str, values: Any = ()) -> list[tuple[Any, ...]]:
        return await self._write(partial(self._rows, name, values))

    def _rows(self, name: str, values: Any, db: sqlite3.Connection) -> list[tuple[Any, ...]]:
        given = {"now": self.now(), "format": FORMAT, **dict(values)}
        given |= {key: json.dumps(one) for key, one in given.items() if isinstance(one, list)}
        if ":alive" in SQL[name]:
            owners = (owner for (owner,) in db.execute(SQL["owners"]).fetchall())
            given["alive"] = json.dumps([owner for owner in owners if self.lock.is_alive(owner)])
        return db.execute(SQL[name], given).fetchall()

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

    def keep(
        self, claim: Claim, records: Sequence[NewRecord], *, releases: bool, due: float | None
    ) -> bool:
        # A step in memory would take more than twice as long if its records were stored at once.
        # Nobody can have posted a message to a new run.
        if self.keeps_texts or claim.row or claim.lock.locked():
            return False
        claim.refuse_ended()
        self.writer.refuse_closed()
        owner, kept = self._buffered.get(claim.run, (claim, []))
        if owner is not claim or (not kept and self._is_stored(claim.run)):
            raise RunExists(claim.run)
        if not kept:
            self._buffered[claim.run] = claim, kept
            kept.append(self.claimed())
        kept += records
        claim.seq, claim.is_released = len(kept), releases
        claim.due = due if releases or due is not None else claim.due
        return True

    def _is_stored(self, run: str) -> bool:
        return bool(self.writer.look(partial(self._rows, "run", {"run": run})))

    def _flush(self) -> None:
        for run, (claim, records) in [*self._buffered.items()]:
            # First, so that one that cannot be stored keeps nobody else from the journal.
            del self._buffered[run]
            change = claim.change(records, (), claim.is_released, claim.due)
            change.owner = self.owner
            try:
                claim.take(change, self.make(change).result())
            except Exception as error:
                claim.fault = JournalError(f"run {run!r} cannot be stored: {error}")
                raise claim.fault from error

    def make(self, change: Change) -> Job[int]:
        # One object for each of a thousand runs; a function with cells would be eight.
        return self.writer.write(partial(self._make, change))

    def _make(self, change: Change, db: sqlite3.Connection) -> int:
        row, seen = change.row or _insert_run(db, change), self.writer.version
        # A release of what is lost changes nothing.
        if not change.releases or change.records or change.consumes:
            if change.row and change.seen != seen:
                self._refuse_others(db, change)
            _insert(db, row, change.epoch, change.seq, change.records)
        change.seen = seen
        for message in change.consumes:
            if not db.execute(SQL["consume"], (change.end, row, message)).rowcount:
                raise NotInInbox(change.run, message)
        if change.unless:
            waiting = db.execute(SQL["inbox"], {"row": row}).fetchall()
            if {kind for kind, *_ in waiting} & {*change.unless}:
                raise MessageWaits(change.run)
        if change.releases:
            values = {"id": row, "owner": self.owner, "due": change.due, "now": self.now()}
            db.execute(SQL["disown"], values)
        elif change.due is not None:
            db.execute(SQL["set_due"], (change.due, row))
        return row

    def _refuse_others(self, db: sqlite3.Connection, change: Change) -> None:
        """Raise ClaimLost or SequenceConflict if others have written to the run."""
        seq, epoch = _head(db, change.row, change.run)[:2]
        if epoch != change.epoch:
            owner = _newest_owner(db, change.row)
            raise TakenOver(change.run, owner, epoch=change.epoch, now=epoch)
        if seq != change.seq:
            raise SequenceConflict(change.run, expected=change.seq, found=seq)

    def hold(self, claim: Claim, owner: str = "") -> None:
        super().hold(claim, owner)
        self.writer.claims = len(self._held)

    async def claim(self, run: str) -> Claim:
        until_s = time.monotonic() + _LONGEST_START_S
        while True:
            self._flush()
            try:
                return await self._gain(self.writer.write(partial(self._claim, run)))
            except RunBusy as busy:
                # A process that starts a program shares its locks with it until it has started, and
                # may be killed just then: the lock is free in a moment.
                if _may_live(busy.owner) or time.monotonic() > until_s:
                    raise
            await asyncio.sleep(_LOOK_AGAIN_S)

    def _claim(self, run: str, db: sqlite3.Connection) -> Claim:
        row = self._row_to_own(db, run)
        seq, epoch = _head(db, row, run)[:2]
        due, known = db.execute(SQL["own"], (self.owner, FORMAT, row)).fetchone()
        refuse_format(run, known)
        _insert(db, row, epoch + 1, seq, [self.claimed()])
        return Claim(self, run, row, epoch + 1, seq + 1, due, self.writer.version)

    def _row_to_own(self, db: sqlite3.Connection, run: str) -> int:
        """The row of a run without a living owner; raises UnknownRun and RunBusy."""
        row, owner = _find(db, run)
        if owner is not None and self.lock.is_alive(owner):
            raise RunBusy(run, _newest_owner(db, row))
        return row

    async def has(self, run: str) -> bool:
        if self.keeps_texts:
            return await super().has(run)
        return run in self._buffered or self._is_stored(run)

    async def records_after(self, after: Place, family: str | None = None) -> list[Placed]:
        values = {"row": after[0] if after else 0, "family": family, "limit": _MOST_PLACED}
        query = SQL["written" if family is None else "written_by_family"]

        def work(db: sqlite3.Connection) -> list[Placed]:
            found, size = [], 0
            # A cursor that is left open would keep the log from being written back.
            with closing(db.execute(query, values)) as rows:
                for row, run, *record in rows:
                    found.append(Placed(Place((row,)), str(run), Record(*record)))
                    size += len(str(found[-1].record.data))
                    if len(found) == _MOST_PLACED or size > MOST_BYTES:
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
        family = {n: kept for n, (kept, _) in self._buffered.items() if f"{n}/".startswith(above)}
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
        self._has_stored = True
        await super().store_definition(digest, text)

    async def post(self, run: str, kind: str, message_id: str, data: str, at: float) -> str | None:
        refuse_texts("the {} of a message", run=run, kind=kind, id=message_id, data=data)

        def work(db: sqlite3.Connection) -> str | None:
            row = _find(db, run)[0]
            if db.execute(SQL["post"], (row, message_id, kind, data, at)).rowcount:
                db.execute(SQL["hasten"], {"id": row, "now": self.now()})
                return None
            return str(db.execute(SQL["posted"], (row, message_id)).fetchone()[0])

        return await self._write(work)

    async def close(self) -> None:
        self.closed = True
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


def _insert_run(db: sqlite3.Connection, change: Change) -> int:
    needs = None if change.needs is None else json.dumps([*change.needs])
    new = (change.run, change.machine, change.definition, needs, change.created_at, change.owner)
    made = db.execute(SQL["insert_run"], (*new, FORMAT))
    if not made.rowcount or made.lastrowid is None:
        raise RunExists(change.run)
    return made.lastrowid


def _insert(
    db: sqlite3.Connection, row: int, epoch: int, seq: int, records: Sequence[NewRecord]
) -> None:
    rows = [(row, n, epoch, new.at, new.type, new.text) for n, new in enumerate(records, seq + 1)]
    db.executemany(SQL["append"], rows)


def _find(db: sqlite3.Connection, run: str) -> tuple[int, str | None]:
    row: tuple[int, str | None] | None = db.execute(SQL["run"], {"run": run}).fetchone()
    if row is None:
        raise UnknownRun(run)
    return row


def _newest(db: sqlite3.Connection) -> Place:
    return Place(db.execute(SQL["newest"]).fetchone())


def _head(db: sqlite3.Connection, row: int, run: str) -> tuple[int, int, float, str]:
    """The number, epoch, time and type of the newest record of a run."""
    head: tuple[int, int, float, str] | None = db.execute(SQL["head"], (row,)).fetchone()
    if head is None:
        raise RunDamaged(run, EMPTY)
    return head


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
