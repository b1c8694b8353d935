"""Changes of runs by their owners, of which all that wait share a transaction.

Rows are locked first, in one order, by statements of their own: a statement that waited for a row
sees other tables as they were before the wait. What is refused is left out, and the others are
written.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from loopkit.journal.errors import (
    ClaimLost,
    JournalError,
    MessageWaits,
    NotInInbox,
    RunExists,
    SequenceConflict,
)
from loopkit.journal.files import Job
from loopkit.journal.postgres.database import CHANGE, Connection, Connections, Database, rows
from loopkit.journal.records import CLAIMED, NewRecord, owner_of

_MOST_IN_GROUP = 500
LOOP_ENDED = "the event loop ended in the middle of a request; whether it was done is not known"
_MOST_CHARACTERS = 50_000_000
"""Of records in a request; the last one may exceed them. PostgreSQL takes a gigabyte at most."""
_MOST_GROUPS = 3
"""Of four connections: one is left to those who read."""


class NewRun(NamedTuple):
    run: str
    machine: str
    definition: str
    needs: Sequence[str] | None
    created_at: float
    owner: str


@dataclass(eq=False)
class Change:
    """What an owner wants to be done to its run, or to a new one, whole or not at all."""

    run: str
    row: int
    epoch: int
    seq: int
    """The run's last record before it."""
    records: Sequence[NewRecord]
    consumes: Sequence[str] = ()
    releases: bool = False
    due: float | None = None
    unless: Sequence[str] = ()
    new: NewRun | None = None
    texts: list[str] = field(default_factory=list)
    job: Job[int] = field(init=False)
    """Gives the row of the run."""

    @property
    def end(self) -> int:
        return self.seq + len(self.records)


class Groups:
    def __init__(self, database: Database, connections: Connections) -> None:
        self._database = database
        self._connections = connections
        self._waiting: list[Change] = []
        self._working = set[asyncio.Task[None]]()

    def ask(self, change: Change) -> Job[int]:
        """The job of a change, which is done when it is durable."""
        change.texts = [record.text for record in change.records]
        change.job = Job(lambda _: 0, writes=True)
        if not self._waiting:
            # In the next turn, so that others can join.
            change.job.get_loop().call_soon(self._go_on)
        self._waiting.append(change)
        return change.job

    async def finish(self) -> None:
        while self._waiting or self._working:
            self._go_on()
            await asyncio.wait(self._working)

    def _go_on(self, _: object = None) -> None:
        if self._waiting and len(self._working) < _MOST_GROUPS:
            group = self._waiting[:_MOST_IN_GROUP]
            del self._waiting[:_MOST_IN_GROUP]
            task = asyncio.create_task(self._settle(group))
            self._working.add(task)
            task.add_done_callback(self._working.discard)
            task.add_done_callback(self._go_on)

    async def _settle(self, group: list[Change]) -> None:
        try:
            work = Attempt(self._database, group).make
            size = sum(len(text) for change in group for text in change.texts)
            results: Sequence[Any] = await self._connections.ask(work, CHANGE, size)
        except Exception as error:  # noqa: BLE001 - a lost outcome would hang its caller
            if len(group) > 1 and _is_of_one(error):
                for change in group:
                    await self._settle([change])
                return
            results = [error] * len(group)
        except asyncio.CancelledError:
            for change in group:
                change.job.settle(JournalError(LOOP_ENDED))
            raise
        for change, result in zip(group, results, strict=True):
            change.job.settle(result)


def _is_of_one(error: Exception) -> bool:
    """Whether the database has refused the data of one change."""
    state: str = getattr(error.__cause__, "sqlstate", None) or ""
    return state[:2] in ("22", "23", "54")


class Head(NamedTuple):
    epoch: int
    seq: int
    own_seq: int
    """The last record that the claim itself has written."""


Inbox = dict[str, tuple[str, int | None]]
"""The kind of each message, and the record with which it was consumed."""


class Attempt:
    """Attempts to make the changes of a group in a transaction."""

    def __init__(self, database: Database, group: Sequence[Change]) -> None:
        self._sql = database
        self._group = group

    async def make(self, db: Connection, attempt: int) -> list[int | JournalError]:
        """The row or the refusal of each change; after an earlier attempt it may be done already.

        Rows are locked before anything is written, so that `(tx, id)` keeps the order of each run.
        """
        old = [change for change in self._group if change.new is None]
        whole = {c.row for c in old if c.consumes or c.unless or c.releases or c.due is not None}
        shared = {change.row for change in old} - whole
        for name, locked in (("lock_whole", whole), ("lock_shared", shared)):
            if locked:
                await rows(db, self._sql[name], ([*locked],))
        heads, inboxes = await self._heads(db, old), await self._inboxes(db, old, whole)
        results: dict[Change, int | JournalError] = {}
        written: list[Change] = []
        for change in old:
            head, inbox = heads.get(change.row), inboxes.get(change.row, {})
            if attempt and head and _is_done(change, head, inbox):
                results[change] = change.row
            elif (refusal := await self._refusal(db, change, head, inbox)) is not None:
                results[change] = refusal
            else:
                results[change] = change.row
                written.append(change)
        if len(old) < len(self._group):
            await self._begin(db, attempt, results, written)
        await self._write(db, written)
        return [results[change] for change in self._group]

    async def _heads(self, db: Connection, changes: Sequence[Change]) -> dict[int, Head]:
        if not changes:
            return {}
        wanted = [c.row for c in changes], [c.epoch for c in changes]
        found = await rows(db, self._sql["heads"], wanted)
        return {row: Head(epoch, seq or 0, own or 0) for row, epoch, seq, own in found}

    async def _inboxes(
        self, db: Connection, changes: Sequence[Change], whole: set[int]
    ) -> dict[int, Inbox]:
        inboxes: dict[int, Inbox] = {}
        consumed = [message for change in changes for message in change.consumes]
        if whole and (consumed or any(change.unless for change in changes)):
            for row, name, kind, seq in await rows(db, self._sql["waiting"], ([*whole], consumed)):
                inboxes.setdefault(row, {})[name] = kind, seq
        return inboxes

    async def _refusal(
        self, db: Connection, change: Change, head: Head | None, inbox: Inbox
    ) -> JournalError | None:
        if head is None or head.epoch != change.epoch:
            # A release of what is lost changes nothing.
            is_release = change.releases and not (change.records or change.consumes)
            return None if is_release else await self._lost(db, change, head)
        if head.seq != change.seq:
            return SequenceConflict(change.run, expected=change.seq, found=head.seq)
        waiting = {name: kind for name, (kind, seq) in inbox.items() if seq is None}
        for message in change.consumes:
            if waiting.pop(message, None) is None:
                return NotInInbox(change.run, message)
        return MessageWaits(change.run) if {*waiting.values()} & {*change.unless} else None

    async def _lost(self, db: Connection, change: Change, head: Head | None) -> JournalError:
        if head is None:
            return ClaimLost(f"run {change.run!r} was removed; this claim on it has ended")
        claims = await rows(db, self._sql["newest_claim"], (change.row, CLAIMED))
        return ClaimLost(
            f"run {change.run!r} was taken over by {owner_of(*claims)}; this claim "
            f"on it (epoch {change.epoch}, now {head.epoch}) appends nothing more"
        )

    async def _begin(
        self,
        db: Connection,
        attempt: int,
        results: dict[Change, int | JournalError],
        written: list[Change],
    ) -> None:
        """Make the new runs, by their names in order, so that no two groups block each other."""
        changes = sorted((c for c in self._group if c.new), key=lambda change: change.run)
        new = [change.new for change in changes if change.new]
        needs = [None if one.needs is None else json.dumps([*one.needs]) for one in new]
        values = (
            new[0].owner, [one.run for one in new], [one.machine for one in new],
            [one.definition for one in new], [one.created_at for one in new], needs,
        )  # fmt: skip
        made = dict(await rows(db, self._sql["insert_runs"], values))
        for change in changes:
            if (row := made.pop(change.run, None)) is not None:
                results[change] = change.row = row
                written.append(change)
            else:
                known = await self._begun(db, change) if attempt else None
                results[change] = RunExists(change.run) if known is None else known

    async def _begun(self, db: Connection, change: Change) -> int | None:
        """The row of a run that an earlier attempt has made with the same records."""
        found = await rows(db, self._sql["beginning"], (change.run, change.end))
        told = [(r.at, r.type, text) for r, text in zip(change.records, change.texts, strict=True)]
        return found[0][0] if [row[1:] for row in found] == told else None

    async def _write(self, db: Connection, changes: Sequence[Change]) -> None:
        records, size = list[Any](), 0
        for change in changes:
            told = zip(change.records, change.texts, strict=True)
            for seq, (record, text) in enumerate(told, change.seq + 1):
                records.append((change.row, seq, change.epoch, record.at, record.type, text))
                size += len(text)
                if size > _MOST_CHARACTERS:
                    await self._each(db, "insert_records", records)
                    records, size = [], 0
        consumed = [(c.row, message, c.end) for c in changes for message in c.consumes]
        released = [(c.row, c.epoch, c.due) for c in changes if c.releases]
        named = [(c.row, c.due) for c in changes if c.due is not None and not c.releases]
        for name, values in (
            ("insert_records", records), ("consume", consumed), ("disown", released),
            ("set_due", named),
        ):  # fmt: skip
            await self._each(db, name, values)

    async def _each(self, db: Connection, name: str, values: Sequence[Sequence[Any]]) -> None:
        """Execute a statement that takes a list for each column, if there are rows."""
        if values:
            await rows(db, self._sql[name], [[*column] for column in zip(*values, strict=True)])


def _is_done(change: Change, head: Head, inbox: Inbox) -> bool:
    if change.records:
        return head.own_seq >= change.end
    taken = [inbox.get(message, ("", None))[1] for message in change.consumes]
    return bool(taken) and all(seq == change.end for seq in taken)
