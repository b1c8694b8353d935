"""The journal in PostgreSQL, and the claims on its runs."""

from __future__ import annotations

import asyncio
import json
import os
import time
import weakref
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeVar

import psycopg

from loopkit.journal.contents import forget_removed
from loopkit.journal.errors import (
    ClaimLost,
    JournalError,
    JournalUnusable,
    MessageWaits,
    OnlyRead,
    RunBusy,
    RunDamaged,
    UnknownDefinition,
    UnknownRun,
    unusable,
)
from loopkit.journal.files import Job
from loopkit.journal.postgres.contents import SharedContents
from loopkit.journal.postgres.database import (
    CHANGE,
    LOOK,
    LOOP_ENDED,
    Change,
    Connection,
    Connections,
    Database,
    Groups,
    NewRun,
    Patience,
    Presence,
    Work,
    rows,
)
from loopkit.journal.postgres.queue import heed_hints, hint
from loopkit.journal.records import (
    CLAIMED,
    MAX_INTEGER,
    AccountStanding,
    Circuit,
    Due,
    History,
    InboxMessage,
    NewRecord,
    Place,
    Placed,
    Rate,
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


class PostgresLimits:
    """Times are those of the database. What is done again as an answer was lost does no more."""

    def __init__(self, database: Database, journal: PostgresJournal) -> None:
        self._sql = database
        self._journal = journal

    async def open_account(self, account: str, limit: float | None, spent: float) -> None:
        await self._write("open_account", (account, limit, spent))

    async def standing(self, account: str) -> AccountStanding | None:
        values = {"account": account, "owner": self._journal.owner}
        found = await self._journal.look("standing", values)
        return AccountStanding(*found[0]) if found else None

    async def hold(self, account: str, run: str, key: str, usd: float) -> bool:
        owner = await self._journal.present()
        values = {"account": account, "run": run, "key": key, "usd": usd, "owner": owner}

        async def work(db: Connection, _: int) -> bool:
            sql = self._sql
            await rows(db, sql["free_hold"], values)
            if not usd:
                return True
            if not await rows(db, sql["hold"], values):
                return False
            await rows(db, sql["note_hold"], values)
            return True

        return await self._journal.write(work)

    async def free_others(self, run: str, keys: Collection[str]) -> None:
        await self._write("free_other_holds", (run, [*keys]))

    async def circuits(self) -> Mapping[str, Circuit]:
        found = await self._journal.look("circuits")
        return {name: Circuit(*circuit) for name, *circuit in found}

    async def record_failure(
        self, provider: str, closed_s: float, threshold: int, opens_s: float
    ) -> None:
        values = {"provider": provider, "closed": closed_s, "opens": opens_s}
        await self._write("record_failure", {**values, "threshold": threshold})

    async def record_answer(self, provider: str) -> None:
        await self._write("record_answer", (provider,))

    async def probe(self, provider: str) -> bool:
        values = {"provider": provider, "owner": await self._journal.present()}
        return bool(await self._write("probe", values))

    async def release_probe(self, provider: str) -> None:
        await self._write("release_probe", (provider, self._journal.owner))

    async def take_calls(
        self, provider: str, held: int, wanted: int, rate: Rate
    ) -> tuple[int, float]:
        owner = await self._journal.present()

        async def work(db: Connection, _: int) -> tuple[int, float]:
            sql = self._sql
            [(ahead_s,)] = await rows(db, sql["lock_provider"], (provider,))
            [(elsewhere,)] = await rows(db, sql["calls_elsewhere"], (provider, owner))
            granted, wait_s = rate.grant(wanted, held + elsewhere, ahead_s)
            await rows(db, sql["use_minute"], (granted * rate.interval_s, provider))
            await rows(db, sql["note_calls"], (provider, owner, held + granted))
            return granted, wait_s

        return await self._journal.write(work)

    async def _write(
        self, name: str, values: Sequence[Any] | Mapping[str, Any]
    ) -> list[tuple[Any, ...]]:
        return await self._journal.write(lambda db, _: rows(db, self._sql[name], values))


T = TypeVar("T")
_EMPTY = "it has no records"
_LONGEST_TURN_S, _NEXT_TURN_S = 1.0, 0.02
"""How long what is due is waited for while others look, and how often they are asked."""
_LOOK_AGAIN_S = 1.0
"""How long a cut connection may take to be noticed by whom it was cut from."""
_MOST_PLACED = 500
_MOST_BYTES = 4_000_000
"""The bytes of records to read at once; the last record may exceed them."""


def open_postgres(
    url: str,
    clock: Callable[[], float],
    *,
    readonly: bool = False,
    patience: Patience = Patience(),  # noqa: B008
) -> PostgresJournal:
    """The journal at a URL; see `open_journal`."""
    database = Database.of(url)
    db = database.connect()
    try:
        database.require(db)
        [(era,)] = db.execute(database["era"].encode()).fetchall()
        if not readonly:
            database.refuse_pooler(db)
        presence = None if readonly else Presence(database, db)
    except psycopg.Error as error:
        db.close()
        raise unusable(error, database.place) from error
    except BaseException:
        db.close()
        raise
    if readonly:
        db.close()
    return PostgresJournal(database, presence, clock, patience, era)


class PostgresClaim:
    def __init__(
        self,
        journal: PostgresJournal,
        run: str,
        stored: tuple[int, int, int] | None,
        due: float | None = None,
        new: tuple[str, str, Sequence[str] | None] = ("", "", None),
    ) -> None:
        """`stored` are the row, epoch and last record; `new` the machine, definition and labels of
        a run that is not stored yet."""
        self._journal = journal
        self.run = run
        self._row, self.epoch, self.seq = stored or (0, 1, 0)
        self.due = due
        self._new = new
        self._lock = asyncio.Lock()
        self.is_released = False
        self._loss: ClaimLost | None = None
        self._tell: Callable[[ClaimLost], None] = lambda _: None

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
        async with self._lock:
            if self.is_released:
                raise ClaimLost(f"this claim on run {self.run!r} was released; claim the run again")
            self._journal.give_up_if_overdue()
            if self._loss is not None:
                raise self._loss
            new = None
            if not self._row:
                owner = await self._journal.present()
                records = (self._journal.claimed(), *records)
                # It is as old as the first record behind its claim, if there is one.
                new = NewRun(self.run, *self._new, records[:2][-1].at, owner)
            change = Change(
                self.run, self._row, self.epoch, self.seq,
                records, consumes, releases, due, tuple(unless), new, tuple(settles),
            )  # fmt: skip
            await self._make(change)
            return self.seq

    async def _make(self, change: Change) -> None:
        job = self._journal.change(change)
        try:
            await job
        finally:
            # Also for a cancelled caller, because the records are written.
            if job.has_succeeded:
                self._row, self.seq, self.is_released = job.result(), change.end, change.releases
                self._journal.hold(self, self._row, change.new.owner if change.new else "")

    def on_loss(self, tell: Callable[[ClaimLost], None]) -> None:
        self._tell = tell

    def lose(self, loss: ClaimLost) -> None:
        """Append nothing more."""
        self._loss = loss
        self._tell(loss)

    async def inbox(self) -> list[InboxMessage]:
        if not self._row:
            return []
        found = await self._journal.look("inbox", (self._row,))
        return [InboxMessage(*message) for message in found]

    async def release(self, unless: Sequence[str] = (), *, due: float | None = None) -> bool:
        async with self._lock:
            # A closed journal has released all its claims.
            if self.is_released or self._journal.closed or self._loss is not None:
                return True
            if not self._row:
                self.is_released, self.due = True, due
                return True
            change = Change(
                self.run, self._row, self.epoch, self.seq, (), (), True, due, tuple(unless)
            )
            try:
                await self._make(change)
            except MessageWaits:
                return False
            return True


class PostgresJournal:
    keeps_texts = True

    def __init__(
        self,
        database: Database,
        presence: Presence | None,
        clock: Callable[[], float],
        patience: Patience,
        era: str,
    ) -> None:
        """Without a presence it only reads."""
        self.era: object = era
        self._patience = patience
        self._database = database
        self._presence = presence
        self._clock = clock
        self._connections = Connections(database, patience)
        self._groups = Groups(database, self._connections)
        self._held: dict[int, PostgresClaim] = {}
        self._free_at: dict[str, float] = {}
        """From when on the runs of an owner may be taken whose lock was found free."""
        self._working = set[asyncio.Task[None]]()
        self._follows: weakref.ref[asyncio.AbstractEventLoop] | None = None
        self._here = json.dumps({"pid": os.getpid(), "host": os.uname().nodename})
        self.contents = SharedContents(database)
        self.limits: SharedLimits | None = PostgresLimits(database, self)
        self.closed = False

    @property
    def owner(self) -> str:
        return self._presence.name if self._presence else ""

    async def present(self) -> str:
        """The name to claim runs with, once this process is not cut off any more."""
        self.refuse()
        until = time.monotonic() + self._patience.longest_s
        while not self.owner:
            self._refuse_closed()
            if time.monotonic() > until:
                raise JournalUnusable(
                    f"the journal {self._database.place} cannot be used: it is away; start it again"
                )
            await asyncio.sleep(0.05)
        return self.owner

    def claimed(self) -> NewRecord:
        """The record that this process owns a run from now on."""
        return NewRecord(CLAIMED, self.now(), self._here)

    def now(self) -> float:
        return self._clock() + (self._presence.ahead if self._presence else 0.0)

    def refuse(self) -> None:
        """Raise JournalUnusable where only reading is possible, and JournalError at the end."""
        self._refuse_closed()
        if self._presence is None:
            raise OnlyRead(self._database.place)
        loop = asyncio.get_running_loop()
        if self._follows is None or self._follows() is not loop:
            self._follows = weakref.ref(loop)
            self._presence.follow(self._lose_all)

    def _refuse_closed(self) -> None:
        if self.closed:
            raise JournalError(f"the journal {self._database.place} is closed; open it again")

    def give_up_if_overdue(self) -> None:
        """Write nothing that comes of programs which were killed while this process stood still."""
        if self._presence is not None and self._presence.is_overdue:
            self._lose_all()

    def _lose_all(self) -> None:
        """End all claims, because others may take this process for dead."""
        held, self._held = self._held, {}
        for claim in held.values():
            self._lose(claim)

    def _lose(self, claim: PostgresClaim) -> None:
        claim.lose(
            ClaimLost(
                f"the claim on run {claim.run!r} has ended, because the connection to the "
                f"journal {self._database.place} was cut; resume the run"
            )
        )

    def hold(self, claim: PostgresClaim, row: int, owner: str = "") -> None:
        """Lose the claim at a cut; one that was made as an `owner` who is dead now is lost."""
        if claim.is_released:
            self._held.pop(row, None)
        elif owner and owner != self.owner:
            self._lose(claim)
        else:
            self._held[row] = claim

    def change(self, change: Change) -> Job[int]:
        self.refuse()
        return self._groups.ask(change)

    def _ask(self, work: Work[T], begin: str = "") -> Job[T]:
        """A job that nobody can cancel; whoever waits for it is cancelled at its end."""
        self._refuse_closed()
        job: Job[Any] = Job(lambda _: None, writes=begin == CHANGE)

        async def serve() -> None:
            try:
                job.settle(await self._connections.ask(work, begin))
            except Exception as error:  # noqa: BLE001 - a lost outcome would hang its caller
                job.settle(error)
            except asyncio.CancelledError:
                job.settle(JournalError(LOOP_ENDED))
                raise

        task = asyncio.create_task(serve())
        self._working.add(task)
        task.add_done_callback(self._working.discard)
        return job

    async def look(self, name: str, values: Any = ()) -> list[tuple[Any, ...]]:
        """The rows of one statement."""
        return await self._ask(lambda db, _: rows(db, self._database[name], values))

    async def write(self, work: Work[T]) -> T:
        self.refuse()
        return await self._ask(work, CHANGE)

    def begin(
        self, run: str, *, machine: str, definition: str, needs: Sequence[str] | None = None
    ) -> PostgresClaim:
        refuse_texts("the name of the {}", run=run, machine=machine, definition=definition)
        return PostgresClaim(self, run, None, new=(machine, definition, _labels(needs)))

    async def claim(self, run: str) -> PostgresClaim:
        refuse_text("the name of the run", run)

        async def attempt() -> PostgresClaim:
            owner = await self.present()

            async def work(db: Connection, _: int) -> tuple[tuple[int, int, int], float | None]:
                return await self._own(db, run, owner)

            job = self._ask(work, CHANGE)
            try:
                claim = PostgresClaim(self, run, *await job)
            except asyncio.CancelledError:
                # Nobody got this claim, so nobody else would ever release it.
                if job.has_succeeded:
                    stored, due = job.result()
                    await PostgresClaim(self, run, stored).release(due=due)
                raise
            self.hold(claim, claim._row, owner)  # noqa: SLF001
            return claim

        return await self._until_free(attempt)

    async def _until_free(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Attempt what needs a run without owner until its owner has had time to give it up."""
        while True:
            try:
                return await attempt()
            except _CutOff as cut:
                await asyncio.sleep(cut.wait_s)

    async def _own(
        self, db: Connection, run: str, owner: str
    ) -> tuple[tuple[int, int, int], float | None]:
        sql = self._database
        locked = await rows(db, sql["lock_to_claim"], (run,))
        if not locked:
            raise UnknownRun(run)
        row = locked[0][0]
        [(epoch, before, due, known)] = await rows(db, sql["to_claim"], (row,))
        refuse_format(run, known)
        await self._refuse_owner(db, run, row, before)
        head = await rows(db, sql["head"], (row,))
        if not head:
            raise RunDamaged(run, _EMPTY)
        refuse_impossible(run, *head[0])
        seq, record = head[0][0] + 1, self.claimed()
        await rows(db, sql["own"], (epoch + 1, owner, row))
        values = [row], [seq], [epoch + 1], [record.at], [record.type], [record.text]
        await rows(db, sql["insert_records"], values)
        return (row, epoch + 1, seq), due

    async def _refuse_owner(self, db: Connection, run: str, row: int, owner: str | None) -> None:
        """Raise RunBusy for a run with a living owner, unless an answer to a claim was lost here.

        Raises _CutOff for an owner whose lock was first seen free just now; once for all its runs.
        """
        if owner is None or (owner == self.owner and row not in self._held):
            return
        alive = await rows(db, self._database["alive"])
        if (owner,) in alive:
            claims = await rows(db, self._database["newest_claim"], (row, CLAIMED))
            raise RunBusy(run, owner_of(*claims))
        if await rows(db, self._database["may_live"], ([owner],)):
            now = time.monotonic()
            free_at = self._free_at.setdefault(owner, now + _LOOK_AGAIN_S)
            if now < free_at:
                raise _CutOff(free_at - now)

    async def submit(self, run: str, needs: Sequence[str] = ()) -> None:
        refuse_text("the name of the run", run)
        values = {"needs": [*(_labels(needs) or ())], "run": run}

        async def work(db: Connection, _: int) -> list[tuple[int]]:
            return await rows(db, self._database["submit"], values)

        if not (submitted := await self.write(work)):
            raise UnknownRun(run)
        await self._hint(submitted[0][0])

    async def _hint(self, row: int) -> None:
        await self._ask(lambda db, _: hint(db, self._database, row))

    async def heed_hints(self, heed: Callable[[], Awaitable[None]]) -> None:
        await heed_hints(self._database, heed)

    async def is_submitted(self, run: str) -> bool:
        refuse_text("the name of the run", run)
        return bool(await self.look("is_submitted", (run,)))

    async def mailed(self) -> list[str]:
        return [str(run) for (run,) in await self.look("mailed", (self.owner,))]

    async def due(
        self, limit: int = 1000, labels: Sequence[str] = (), *, every: bool = False
    ) -> list[Due]:
        values = {"labels": [*(_labels(labels) or ())], "every": every, "limit": _limit(limit)}
        if every:
            return [Due(*found) for found in await self.look("due", values)]
        until = time.monotonic() + _LONGEST_TURN_S
        while time.monotonic() < until:
            found = await self.look("turn", values)
            if found[0][0]:
                return [Due(run, since) for _, run, since in found if run is not None]
            await asyncio.sleep(_NEXT_TURN_S)
        return []

    async def standings(self) -> list[Standing]:
        return [Standing(*found) for found in await self.look("standings")]

    async def has(self, run: str) -> bool:
        refuse_text("the name of the run", run)
        return bool(await self.look("run", (run,)))

    async def read(self, run: str, after: int = 0, limit: int | None = None) -> list[Record]:
        refuse_text("the name of the run", run)
        most = MAX_INTEGER if limit is None else _limit(limit)

        async def work(db: Connection, _: int) -> tuple[int, int, list[tuple[Any, ...]]]:
            if not (known := await rows(db, self._database["whole"], (run,))):
                raise UnknownRun(run)
            [(row, missing, seq, *head)] = known
            if missing or not seq:
                raise RunDamaged(
                    run, f"record {missing} is missing" if seq else "it has no records"
                )
            refuse_impossible(run, seq, *head)
            until = min(seq, after + most)
            return row, until, await rows(db, self._database["read"], _part(row, after, until))

        after = min(max(after, 0), MAX_INTEGER)
        row, until, found = await self._ask(work, LOOK)
        return _sound(run, await self._read_on(run, row, found, after, until))

    async def _read_on(
        self, run: str, row: int, found: list[tuple[Any, ...]], after: int, until: int
    ) -> list[tuple[Any, ...]]:
        """What is `found` of the records after one, with the others up to `until`, in parts.

        None of them keeps the database for longer than one request may take.
        """
        while (last := found[-1][0] if found else after) < until:
            part = await self.look("read", _part(row, last, until))
            if not part:
                # It was removed meanwhile.
                raise UnknownRun(run)
            found += part
        return found

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
        wanted = {
            "machine": machine, "run": run, "children": children, "before": before,
            "below": None, "skipping": [*skipping], "limit": _limit(limit),
        }  # fmt: skip
        return [_run_row(*row[1:]) for row in await self.look("runs", wanted)]

    async def histories(
        self, machine: str | None = None, *, before: int | None = None, limit: int = 50
    ) -> list[History]:
        refuse_text("a filter of runs", machine or "")
        wanted: dict[str, Any] = {
            "machine": machine, "run": None, "children": True, "before": None,
            "below": before, "skipping": [], "limit": _limit(limit),
        }  # fmt: skip

        async def work(db: Connection, _: int) -> dict[int, tuple[Any, list[tuple[Any, ...]]]]:
            found: dict[int, Any]
            found = {row[0]: (row, []) for row in await rows(db, self._database["runs"], wanted)}
            values = [*found], _MOST_BYTES
            for row, *record in await rows(db, self._database["histories"], values):
                found[row][1].append(record)
            return found

        histories = []
        for place, (row, found) in (await self._ask(work, LOOK)).items():
            listed = _run_row(*row[1:])
            with suppress(UnknownRun):
                found = await self._read_on(listed.run, place, found, 0, listed.seq)
                histories.append(_history(place, listed, found))
        return histories

    async def find_runs(self, beginning: str, limit: int = 1000) -> list[str]:
        refuse_text("the beginning of an id", beginning)
        values = {"beginning": beginning, "limit": _limit(limit)}
        return [str(run) for (run,) in await self.look("named", values)]

    async def records_after(self, after: Place, family: str | None = None) -> list[Placed]:
        refuse_text("the name of the run", family or "")
        tx, number = after if len(after) == 2 else (0, 0)
        values = {
            "tx": str(tx), "id": number, "family": family,
            "limit": _MOST_PLACED, "size": _MOST_BYTES,
        }  # fmt: skip
        found = await self.look("records_after", values)
        self._take_era(found)
        return [
            Placed(Place((tx, number)), run, Record(*record))
            for _, tx, number, run, *record in found
            if tx is not None
        ]

    def _take_era(self, found: Sequence[tuple[Any, ...]]) -> None:
        self.era = found[0][0] if found else None

    async def newest(self) -> Place:
        found = await self.look("newest")
        self._take_era(found)
        _, removed_tx, removed_id, tx, number, oldest = found[0]
        # What was removed may have been written while an earlier transaction was under way.
        removed = (removed_tx, removed_id) if removed_tx < oldest else (oldest - 1, MAX_INTEGER)
        newest = max((tx or 0, number or 0), removed)
        return Place(newest) if newest > (0, 0) else Place()

    def place_in(self, text: str) -> Place | None:
        tx, point, number = text.partition(".")
        parts = (tx, number) if point else (tx,)
        if not all(part.isascii() and part.isdigit() and len(part) < 20 for part in parts):
            return None
        place = Place(map(int, parts))
        if max(place) > MAX_INTEGER:
            return None
        # A number alone is the beginning, or a place in another store.
        return place if point else Place()

    async def remove(self, *runs: str) -> None:
        for run in runs:
            refuse_text("the name of the run", run)

        await self._until_free(lambda: self.write(lambda db, _: self._remove(db, runs)))
        await forget_removed(self.contents.local, self.has)

    async def _remove(self, db: Connection, runs: Sequence[str]) -> None:
        sql, family = self._database, dict[int, tuple[str, str | None]]()
        for run in runs:
            found = await rows(db, sql["family"], {"run": run})
            if run not in (name for _, name, _ in found):
                raise UnknownRun(run)
            family |= {row: (name, owner) for row, name, owner in found}
        for row, (name, owner) in family.items():
            await self._refuse_owner(db, name, row, owner)
        gone = [*family]
        named = await rows(db, sql["named_by_runs"], {"rows": gone})
        for name, values in (
            ("note_removal", gone),
            ("remove_records", gone),
            ("remove_runs", gone),
            ("remove_holds", [name for name, _ in family.values()]),
            ("remove_definitions", [digest for (digest,) in named]),
        ):
            await rows(db, sql[name], (values,))
        await rows(db, sql["remove_trees"], {"runs": [name for name, _ in family.values()]})

    async def store_definition(self, digest: str, text: str) -> None:
        refuse_text("the digest of a definition", digest)
        refuse_text(f"the definition {digest}", text)
        await self.write(lambda db, _: rows(db, self._database["store_definition"], (digest, text)))

    async def definition(self, digest: str) -> str:
        refuse_text("the digest of a definition", digest)
        found = await self.look("definition", (digest,))
        if not found:
            raise UnknownDefinition(digest)
        return str(found[0][0])

    async def post(self, run: str, kind: str, message_id: str, data: str, at: float) -> str | None:
        refuse_texts("the {} of a message", run=run, kind=kind, id=message_id, data=data)
        refuse_time("a message", at)

        due: list[tuple[int]] = []

        async def work(db: Connection, attempt: int) -> str | None:
            nonlocal due
            sql = self._database
            locked = await rows(db, sql["lock_to_post"], (run,))
            if not locked:
                raise UnknownRun(run)
            row = locked[0][0]
            if await rows(db, sql["post"], (row, message_id, kind, data, at)):
                due = await rows(db, sql["hasten"], (row,))
                return None
            [known] = await rows(db, sql["posted"], (row, message_id))
            # An earlier attempt may have posted it.
            return None if attempt and known == (kind, data, at) else str(known[1])

        first = await self.write(work)
        for (row,) in due:
            await self._hint(row)
        return first

    async def close(self) -> None:
        if self.closed:
            return
        self.closed = self._connections.closed = True
        await self._groups.finish()
        if self._working:
            await asyncio.wait(self._working)
        await self._connections.close()
        await asyncio.to_thread(self.contents.close)
        if self._presence is not None:
            await asyncio.to_thread(self._presence.close)


class _CutOff(JournalError):
    """The owner's lock is free though it was seen just now: it is given time to notice."""

    def __init__(self, wait_s: float) -> None:
        super().__init__("the owner was cut off just now")
        self.wait_s = wait_s


def _part(row: int, after: int, until: int) -> dict[str, int]:
    return {"row": row, "after": after, "until": until, "size": _MOST_BYTES}


def _limit(limit: int) -> int:
    return min(max(limit, 0), MAX_INTEGER)


def _labels(labels: Sequence[str] | None) -> Sequence[str] | None:
    for label in labels or ():
        refuse_text("a label", label)
    return labels


def _sound(run: str, found: Sequence[Sequence[Any]]) -> list[Record]:
    for seq, epoch, at, *_ in found:
        refuse_impossible(run, seq, epoch, at)
    return [Record(*record) for record in found]


def _run_row(
    run: str, machine: str, definition: str, created_at: float, is_driven: bool,
    seq: int | None, epoch: int, at: float, count: int,
) -> RunRow:  # fmt: skip
    row = RunRow(run, machine, definition, created_at, at, seq or 0, is_driven)
    if seq is None:
        return _damaged(row, RunDamaged(run, _EMPTY))
    if count != seq:
        return _damaged(row, RunDamaged(run, f"{seq - count} of its records are missing"))
    try:
        refuse_impossible(run, seq, epoch, at)
    except RunDamaged as damage:
        return _damaged(row, damage)
    return row


def _damaged(row: RunRow, damage: RunDamaged) -> RunRow:
    return replace(row, updated_at=row.created_at, seq=0, damage=damage)


def _history(place: int, listed: RunRow, found: Sequence[Sequence[Any]]) -> History:
    try:
        records = () if listed.damage else _sound(listed.run, found)
    except RunDamaged as damage:
        return History(place, _damaged(listed, damage), ())
    return History(place, listed, records)
