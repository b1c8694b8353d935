"""The journal in one SQLite file: many runs, several processes."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

from loopkit.journal import store, stored_order
from loopkit.journal.contents import Contents
from loopkit.journal.database import connect, connect_to_read
from loopkit.journal.errors import ClaimLost, JournalUnusable, NoJournal, OnlyRead, RunBusy
from loopkit.journal.faults import unusable
from loopkit.journal.folder import DATABASE, alone, furnish
from loopkit.journal.order import Place, Placed
from loopkit.journal.port import CLAIMED, SPENDING, History, InboxMessage, NewRecord, Record, RunRow
from loopkit.journal.presence import Presence
from loopkit.journal.storable import refuse_messages, refuse_records, refuse_text, refuse_time
from loopkit.journal.store import NewRun, Tenure
from loopkit.journal.writer import Job, Writer

T = TypeVar("T")
_LONGEST_START_S = 5.0
"""The longest that the start of a program may take on a busy machine."""
_LOOK_AGAIN_S = 0.02


class SqliteClaim:
    """A `Claim` on a run in a SQLite journal."""

    __slots__ = ("_append_lock", "_released", "_seen", "_seq", "_tenure", "_writer")

    def __init__(self, writer: Writer, tenure: Tenure, seq: int, seen: int) -> None:
        self._writer = writer
        self._tenure = tenure
        self._seq = seq
        self._append_lock = asyncio.Lock()
        self._released = False
        self._seen = seen
        """The version of the file at which the run was last seen as this claim left it."""
        writer.claims += 1

    @property
    def run(self) -> str:
        return self._tenure.run

    @property
    def epoch(self) -> int:
        return self._tenure.epoch

    @property
    def seq(self) -> int:
        return self._seq

    async def append(
        self,
        records: Sequence[NewRecord],
        consumes: Sequence[str] = (),
        *,
        releases: bool = False,
        unless: Sequence[str] = (),
    ) -> int:
        records, consumes = tuple(records), tuple(consumes)
        refuse_records(records)
        if consumes:
            refuse_messages(consumes)
        async with self._append_lock:
            if self._released:
                raise ClaimLost(f"this claim on run {self.run!r} was released; claim the run again")
            # One object for each of a thousand runs; a function with cells would be eight.
            job = self._writer.write(
                partial(self._append, records, consumes, releases=releases, unless=unless),
                spends=_spends(records),
            )
            try:
                await job
            finally:
                # Also for a cancelled caller, because the records are written.
                if _has_succeeded(job):
                    self._seq = job.result()
                    if releases:
                        self._let_go()
            return self._seq

    def _append(
        self,
        records: Sequence[NewRecord],
        consumes: Sequence[str],
        db: sqlite3.Connection,
        *,
        releases: bool,
        unless: Sequence[str],
    ) -> int:
        if self._seen != self._writer.version:
            store.refuse_others(db, self._tenure, self._seq)
            self._seen = self._writer.version
        return store.append(
            db, self._tenure, self._seq, records, consumes, releases=releases, unless=unless
        )

    async def inbox(self) -> list[InboxMessage]:
        return await self._writer.read(lambda db: store.inbox(db, self._tenure))

    async def release(self, unless: Sequence[str] = ()) -> bool:
        async with self._append_lock:
            # A closed journal has released all its claims.
            if self._released or self._writer.closed:
                return True
            job = self._writer.write(lambda db: store.release(db, self._tenure, unless))
            try:
                return await job
            finally:
                if _has_succeeded(job) and job.result():
                    self._let_go()

    def _let_go(self) -> None:
        self._released = True
        self._writer.claims -= 1


class SqliteJournal:
    """A `Journal` for one event loop; its file is shared with other processes."""

    keeps_texts = True
    era = 0
    """Its file stays open, even if another one is put in its place."""

    def __init__(
        self,
        writer: Writer,
        presence: Presence,
        clock: Callable[[], float],
        contents: Contents,
    ) -> None:
        self._writer = writer
        self._presence = presence
        self._clock = clock
        self.contents = contents
        self._claim_data = store.claim_data()
        self._has_stored = False
        """Whether a run may be about to begin here with a stored definition."""

    @classmethod
    def open(
        cls,
        folder: Path,
        *,
        clock: Callable[[], float] = time.time,
    ) -> SqliteJournal:
        """The journal in the state folder `folder`, made if it is missing.

        `clock` gives the time of claims, in Unix seconds. Raises `JournalUnusable`; if the journal
        can still be read, only once something is to be written.
        """
        place = str(folder)
        try:
            connection, presence = _open(folder, place)
            fault = None
        except JournalUnusable as error:
            connection, presence = _open_to_read(folder, place, error)
            fault = error
        return cls(Writer(connection, folder, presence, fault), presence, clock, Contents(folder))

    @classmethod
    def view(cls, folder: Path) -> SqliteJournal:
        """The journal in a state folder, of which no file is ever written.

        Raises `NoJournal` if there is none yet, and `JournalUnusable`. Writing raises `OnlyRead`.
        """
        place = str(folder)
        if not (folder / DATABASE).exists():
            raise NoJournal(place)
        connection = connect_to_read(folder.absolute() / DATABASE, place)
        if connection is None:
            raise JournalUnusable(
                f"the journal {place} cannot be read; check its files and their permissions"
            )
        presence = Presence.watch(folder)
        writer = Writer(connection, folder, presence, OnlyRead(place))
        return cls(writer, presence, time.time, Contents(folder))

    async def create(
        self, run: str, *, machine: str, definition: str, records: Sequence[NewRecord]
    ) -> SqliteClaim:
        for what, text in (("run", run), ("machine", machine), ("definition", definition)):
            refuse_text(f"the name of the {what}", text)
        refuse_records(records)
        own, claimed = self._presence.name, self._claim_record()
        new = NewRun(run, machine, definition, (records[0] if records else claimed).at)
        every = (claimed, *records)
        return await self._take_claim(
            lambda db: store.create(db, new, own, every), spends=_spends(records)
        )

    async def claim(self, run: str) -> SqliteClaim:
        refuse_text("the name of the run", run)
        until_s = time.monotonic() + _LONGEST_START_S
        while True:
            try:
                return await self._claim(run)
            except RunBusy as busy:
                # A process that starts a program shares its locks with it until it has started, and
                # may be killed just then: the lock is free in a moment.
                if busy.owner.is_alive() or time.monotonic() > until_s:
                    raise
            await asyncio.sleep(_LOOK_AGAIN_S)

    def _claim_record(self) -> NewRecord:
        """The record that this process owns the run from now on."""
        return NewRecord(CLAIMED, self._clock(), self._claim_data)

    async def _claim(self, run: str) -> SqliteClaim:
        me, claimed = self._presence, self._claim_record()
        return await self._take_claim(lambda db: store.claim(db, run, me.name, me.sees, claimed))

    async def has(self, run: str) -> bool:
        refuse_text("the name of the run", run)
        return await self._writer.read(lambda db: store.has(db, run))

    async def read(self, run: str, after: int = 0, limit: int | None = None) -> list[Record]:
        refuse_text("the name of the run", run)
        return await self._writer.read(lambda db: store.read(db, run, after, limit))

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
        sees = self._presence.sees
        return await self._writer.read(
            lambda db: store.runs(db, machine, run, children, before, skipping, limit, sees)
        )

    async def records_after(self, after: Place, family: str | None = None) -> list[Placed]:
        """The next records after a place, as in `RecordOrder`."""
        refuse_text("the name of the run", family or "")
        return await self._writer.read(lambda db: stored_order.records_after(db, after, family))

    async def newest(self) -> Place:
        return await self._writer.read(stored_order.newest)

    async def histories(
        self, machine: str | None = None, *, before: int | None = None, limit: int = 50
    ) -> list[History]:
        refuse_text("a filter of runs", machine or "")
        sees = self._presence.sees
        return await self._writer.read(lambda db: store.histories(db, machine, before, limit, sees))

    async def find_runs(self, beginning: str, limit: int = 1000) -> list[str]:
        refuse_text("the beginning of an id", beginning)
        return await self._writer.read(lambda db: store.find_runs(db, beginning, limit))

    async def remove(self, *runs: str) -> None:
        for run in runs:
            refuse_text("the name of the run", run)
        await self._writer.write(lambda db: self._remove(db, runs))
        # Also for runs after whose removal a process was killed.
        kept = await asyncio.to_thread(self.contents.runs)
        gone = [run for run in kept if not await self.has(run)]
        if gone:
            await asyncio.to_thread(self.contents.forget, gone)

    def _remove(self, db: sqlite3.Connection, runs: Sequence[str]) -> None:
        for run in runs:
            store.remove(db, run, self._presence.sees)
        # A definition is stored before its run. A process that opens the journal from now on stores
        # it after this transaction, and one that has opened it before is seen.
        if not self._has_stored and self._presence.is_alone():
            store.remove_definitions(db)

    async def store_definition(self, digest: str, text: str) -> None:
        refuse_text("the digest of a definition", digest)
        refuse_text(f"the definition {digest}", text)
        self._has_stored = True
        await self._writer.write(lambda db: store.store_definition(db, digest, text))

    async def definition(self, digest: str) -> str:
        refuse_text("the digest of a definition", digest)
        return await self._writer.read(lambda db: store.definition(db, digest))

    async def post(self, run: str, kind: str, message_id: str, data: str, at: float) -> str | None:
        for what, text in (("run", run), ("kind", kind), ("id", message_id), ("data", data)):
            refuse_text(f"the {what} of a message", text)
        refuse_time("a message", at)
        message = InboxMessage(kind, message_id, data, at)
        return await self._writer.write(lambda db: store.post(db, run, message))

    async def close(self) -> None:
        try:
            await self._writer.close()
        finally:
            self.contents.close()
            self._presence.withdraw()

    async def _take_claim(
        self, work: Callable[[sqlite3.Connection], tuple[Tenure, int]], *, spends: bool = False
    ) -> SqliteClaim:
        job = self._writer.write(partial(self._claimed, work), spends=spends)
        try:
            await job
        except asyncio.CancelledError:
            # Nobody got this claim, so nobody else would ever release it.
            if _has_succeeded(job):
                await self._claim_of(job).release()
            raise
        return self._claim_of(job)

    def _claimed(
        self, work: Callable[[sqlite3.Connection], tuple[Tenure, int]], db: sqlite3.Connection
    ) -> tuple[Tenure, int, int]:
        """The tenure, the last `seq`, and the version of the file in which they were so."""
        return *work(db), self._writer.version

    def _claim_of(self, job: Job[tuple[Tenure, int, int]]) -> SqliteClaim:
        return SqliteClaim(self._writer, *job.result())


def _open(folder: Path, place: str) -> tuple[sqlite3.Connection, Presence]:
    try:
        return _open_folder(folder.absolute(), place)
    except (sqlite3.Error, OSError) as error:
        raise unusable(error, place) from error
    except ValueError as error:
        raise JournalUnusable(f"{place!r} cannot be a folder: {error}") from error


def _open_to_read(
    folder: Path, place: str, fault: JournalUnusable
) -> tuple[sqlite3.Connection, Presence]:
    is_of_system = isinstance(fault.__cause__, sqlite3.Error | OSError)
    if not is_of_system:
        raise fault
    try:
        connection = connect_to_read(folder.absolute() / DATABASE, place)
    except NoJournal:
        connection = None
    if connection is None:
        raise fault
    return connection, Presence.watch(folder)


def _open_folder(folder: Path, place: str) -> tuple[sqlite3.Connection, Presence]:
    with alone(folder):
        connection = connect(furnish(folder), place)
        try:
            return connection, Presence.announce(folder)
        except OSError:
            connection.close()
            raise


def _spends(records: Sequence[NewRecord]) -> bool:
    return SPENDING in [record.type for record in records]


def _has_succeeded(job: Job[T]) -> bool:
    return job.done() and job.exception() is None
