"""The journal in PostgreSQL, the claims on its runs, and their trees as objects of git.

A run that keeps more in trees than the database takes goes on where they are: it needs the label of
that host from then on.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import threading
import time
import weakref
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import psycopg

from loopkit.journal.contents import Contents, Merge, forget_removed, host_label
from loopkit.journal.errors import (
    ClaimLost,
    JournalClosed,
    JournalError,
    JournalUnusable,
    OnlyRead,
    RunBusy,
    RunDamaged,
    UnknownRun,
    unusable,
)
from loopkit.journal.files import Job, made, state_folder
from loopkit.journal.port import EMPTY, MOST_BYTES, Ask, Claim, Journal, SharedLimits
from loopkit.journal.postgres.database import (
    CHANGE,
    LOOP_ENDED,
    Connection,
    Connections,
    Database,
    Groups,
    Patience,
    Presence,
    Work,
    cut,
    rows,
)
from loopkit.journal.postgres.queue import heed_hints, hint
from loopkit.journal.records import (
    CLAIMED,
    MAX_INTEGER,
    Change,
    Due,
    Place,
    Placed,
    Record,
    owner_of,
    refuse_format,
    refuse_texts,
)
from loopkit.outside.trees import Folder, Tree
from loopkit.text.run_ids import root_of

T = TypeVar("T")
_LONGEST_TURN_S, _NEXT_TURN_S = 1.0, 0.02
"""How long what is due is waited for while others look, and how often they are asked."""
_LOOK_AGAIN_S = 1.0
"""How long a cut connection may take to be noticed by whom it was cut from."""
_MOST_PLACED = 500


def open_postgres(
    url: str,
    clock: Callable[[], float],
    *,
    readonly: bool = False,
    patience: Patience = Patience(),  # noqa: B008
) -> PostgresJournal:
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


class PostgresJournal(Journal):
    def __init__(
        self,
        database: Database,
        presence: Presence | None,
        clock: Callable[[], float],
        patience: Patience,
        era: str,
    ) -> None:
        """Without a presence it only reads."""
        super().__init__(clock)
        self.era = era
        self._patience = patience
        self._database = database
        self._presence = presence
        self._connections = Connections(database, patience)
        self._groups = Groups(database, self._connections)
        self._free_at: dict[str, float] = {}
        """From when on the runs of an owner may be taken whose lock was found free."""
        self._working = set[asyncio.Task[None]]()
        self._follows: weakref.ref[asyncio.AbstractEventLoop] | None = None
        self.contents = SharedContents(database)
        self.limits = SharedLimits(self, self._transact)

    @property
    def owner(self) -> str:
        return self._presence.name if self._presence else ""

    async def present(self) -> str:
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
            raise JournalClosed(self._database.place)

    def give_up_if_overdue(self) -> None:
        if self._presence is not None and self._presence.is_overdue:
            self._lose_all()

    def _lose_all(self) -> None:
        """End all claims, because others may take this process for dead."""
        held, self._held = self._held, {}
        for claim in held.values():
            self._lose(claim)

    def _lose(self, claim: Claim) -> None:
        claim.lose(
            ClaimLost(
                f"the claim on run {claim.run!r} has ended, because the connection to the "
                f"journal {self._database.place} was cut; resume the run"
            )
        )

    def hold(self, claim: Claim, owner: str = "") -> None:
        """It is lost at a cut; one that was made as an `owner` who is dead now is lost at once."""
        if owner and owner != self.owner and not claim.is_released:
            self._lose(claim)
        else:
            super().hold(claim, owner)

    def make(self, change: Change) -> Job[int]:
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
        return await self._ask(lambda db, _: rows(db, self._database[name], values))

    async def execute(self, name: str, values: Any = ()) -> list[tuple[Any, ...]]:
        return await self.write(lambda db, _: rows(db, self._database[name], values))

    async def write(self, work: Work[T]) -> T:
        self.refuse()
        return await self._ask(work, CHANGE)

    async def _transact(self, work: Callable[[Ask], Awaitable[T]]) -> T:
        sql = self._database
        return await self.write(
            lambda db, _: work(lambda name, values: rows(db, sql[name], values))
        )

    async def claim(self, run: str) -> Claim:
        async def attempt() -> Claim:
            owner = await self.present()
            job = self._ask(lambda db, _: self._own(db, run, owner), CHANGE)
            return await self._gain(job, owner)

        return await self._until_free(attempt)

    async def _until_free(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Attempt what needs a run without owner until its owner has had time to give it up."""
        while True:
            try:
                return await attempt()
            except _CutOff as cut:
                await asyncio.sleep(cut.wait_s)

    async def _own(self, db: Connection, run: str, owner: str) -> Claim:
        sql = self._database
        locked = await rows(db, sql["lock_to_claim"], (run,))
        if not locked:
            raise UnknownRun(run)
        row = locked[0][0]
        [(epoch, before, due, known, seq)] = await rows(db, sql["to_claim"], (row,))
        refuse_format(run, known)
        await self._refuse_owner(db, run, row, before)
        if seq is None:
            raise RunDamaged(run, EMPTY)
        await rows(db, sql["own"], (epoch + 1, owner, row))
        new = self.claimed()
        values = [row], [seq + 1], [epoch + 1], [new.at], [new.type], [new.text]
        await rows(db, sql["insert_records"], values)
        return Claim(self, run, row, epoch + 1, seq + 1, due)

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

    async def heed_hints(self, heed: Callable[[], Awaitable[None]]) -> None:
        await heed_hints(self._database, heed)

    async def hint(self, row: int) -> None:
        await self._ask(lambda db, _: hint(db, self._database, row))

    async def _due(self, values: dict[str, Any]) -> list[Due]:
        if values["every"]:
            return await super()._due(values)
        until = time.monotonic() + _LONGEST_TURN_S
        while time.monotonic() < until:
            found = await self.look("turn", values)
            if found[0][0]:
                return [Due(run, since) for _, run, since in found if run is not None]
            await asyncio.sleep(_NEXT_TURN_S)
        return []

    async def records_after(self, after: Place, family: str | None = None) -> list[Placed]:
        tx, number = after if len(after) == 2 else (0, 0)
        values = {
            "tx": str(tx), "id": number, "family": family,
            "limit": _MOST_PLACED, "size": MOST_BYTES,
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
        await self._until_free(lambda: self.write(lambda db, _: self._remove(db, runs)))
        await forget_removed(self.contents, self.has)

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

    async def post(self, run: str, kind: str, message_id: str, data: str, at: float) -> str | None:
        refuse_texts("the {} of a message", run=run, kind=kind, id=message_id, data=data)

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
            await self.hint(row)
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


MOST_TREE_BYTES = 64_000_000
"""What a run and its children may keep in the database, compressed."""
_ATTEMPT_S = 60.0
_PAUSE_S = 1.0
_LONGEST_S = 60.0
_AT_ONCE = 200


class SharedContents(Contents):
    def __init__(
        self, database: Database, most_bytes: int = MOST_TREE_BYTES, folder: Path | None = None
    ) -> None:
        self._sql = database
        self._most_bytes = most_bytes
        name = hashlib.sha256(database.place.encode()).hexdigest()[:12]
        super().__init__(folder or state_folder() / f"postgres-{name}")
        self.state: Path = Path(os.path.realpath(state_folder()))
        self._db: psycopg.Connection[Any] | None = None
        self._lock = threading.Lock()

    def keep(
        self, run: str, folder: Folder, known: Tree | None = None, *, is_trusted: bool = False
    ) -> Tree:
        with made(self.state):
            pass
        tree = super().keep(run, folder, known, is_trusted=is_trusted)
        self.share(run, tree.digest)
        return tree

    def merge(self, run: str, base: Tree, ours: Tree, theirs: Tree) -> Merge:
        merge = super().merge(run, base, ours, theirs)
        if not merge.conflicts:
            self.share(run, merge.tree.digest)
        return merge

    def close(self) -> None:
        super().close()
        with self._lock:
            if self._db is not None:
                self._db.close()
            self._db = None

    def share(self, run: str, digest: str) -> bool:
        """Let others have a tree; where it is too much, let no other host continue the run."""
        ids = self.objects(digest)
        return self._in_database(partial(self._store, run, digest, ids))

    def _store(self, run: str, digest: str, ids: list[str], db: psycopg.Connection[Any]) -> bool:
        ask, root = partial(self._sql.ask, db), root_of(run)
        kept = ask("kept_tree", {"digest": digest, "run": run})
        if kept and kept[0][0] == run:
            return True
        names = [bytes.fromhex(one) for one in ids]
        known = {bytes(name).hex() for (name,) in ask("touch_objects", [names])}
        new = [one for one in ids if one not in known]
        packed = [*zip(new, self.packed(new), strict=True)]
        size = sum(len(data) for _, data in packed)
        if ask("kept_bytes", {"run": root})[0][0] + size > self._most_bytes:
            ask("bind", {"root": root, "label": host_label()})
            return False
        for name, data in packed:
            ask("store_object", (bytes.fromhex(name), data))
        ask("store_tree", (digest, run, names, size))
        return True

    def _fetch(self, *digests: str) -> None:
        for digest in digests:
            if not self.has(digest):
                self._in_database(partial(self._take, digest))

    def _take(self, digest: str, db: psycopg.Connection[Any]) -> None:
        found = self._sql.ask(db, "kept_tree", {"digest": digest, "run": ""})
        if not found:
            # Then the repository here says that it is lost.
            return
        [(run, names)] = found
        with made(self.state):
            pass
        ids = [bytes(name).hex() for name in names]
        self.add(run, digest, ids[0], self._objects(db, self.lacking(ids)))

    def _objects(self, db: psycopg.Connection[Any], ids: list[str]) -> Iterator[tuple[str, bytes]]:
        for start in range(0, len(ids), _AT_ONCE):
            names = [bytes.fromhex(one) for one in ids[start : start + _AT_ONCE]]
            for name, data in self._sql.ask(db, "objects", [names]):
                yield bytes(name).hex(), bytes(data)

    def _in_database(self, work: Callable[[psycopg.Connection[Any]], T]) -> T:
        """What `work` gives in a transaction; it is done again where a connection has failed."""
        until = time.monotonic() + _LONGEST_S
        with self._lock:
            while True:
                try:
                    self._db = self._db or self._sql.open(self._sql.url)
                    deadline = threading.Timer(_ATTEMPT_S, cut, (self._db,))
                    deadline.daemon = True
                    deadline.start()
                    try:
                        with self._db.transaction():
                            return work(self._db)
                    finally:
                        deadline.cancel()
                except psycopg.Error as error:
                    is_away = self._db is None or self._db.closed
                    with suppress(psycopg.Error):
                        if self._db is not None:
                            self._db.close()
                    self._db = None
                    if not is_away or time.monotonic() > until:
                        raise unusable(error, self._sql.place) from error
                    time.sleep(_PAUSE_S)
