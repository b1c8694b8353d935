"""The journal as lists, for runs that end with their process: no request ever waits."""

from __future__ import annotations

import os
import time
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice

from loopkit.journal.contents import Contents
from loopkit.journal.errors import (
    ClaimLost,
    JournalError,
    MessageWaits,
    NotInInbox,
    RunBusy,
    RunExists,
    UnknownDefinition,
    UnknownRun,
)
from loopkit.journal.owner import Owner
from loopkit.journal.port import CLAIMED, History, InboxMessage, NewRecord, Record, RunRow
from loopkit.journal.storable import refuse_messages, refuse_records, refuse_text, refuse_time
from loopkit.journal.store import claim_data
from loopkit.text.run_ids import ancestors_of, is_child
from loopkit.values import NOTHING, Mutable


class _Run(Mutable, eq=False):
    name: str
    machine: str
    definition: str
    created_at: float
    place: int
    records: list[NewRecord]
    begun: tuple[int, ...] = ()
    """How many records there were when each epoch began."""
    posted: Mapping[str, str] = NOTHING
    """The data of all messages, by id."""
    inbox: Mapping[str, InboxMessage] = NOTHING
    """The messages that no append has consumed, by id."""
    claim: MemoryClaim | None = None

    def behind(self, seq: int, limit: int | None = None) -> list[Record]:
        """The records after a place, oldest first."""
        return [self.record(at) for at in range(max(seq, 0), len(self.records))[:limit]]

    def record(self, at: int) -> Record:
        new, epoch = self.records[at], bisect_right(self.begun, at)
        return Record(at + 1, epoch, new.at, new.type, new.text)


class MemoryClaim:
    """A `Claim` on a run in memory."""

    def __init__(self, journal: MemoryJournal, run: _Run, since: float) -> None:
        self._journal = journal
        self._run = run
        self.epoch = len(run.begun)
        self.since = since
        """Unix seconds."""

    @property
    def run(self) -> str:
        return self._run.name

    @property
    def seq(self) -> int:
        return len(self._run.records)

    async def append(
        self,
        records: Sequence[NewRecord],
        consumes: Sequence[str] = (),
        *,
        releases: bool = False,
        unless: Sequence[str] = (),
    ) -> int:
        _refuse_texts(records)
        if self._journal.is_closed:
            self._journal.refuse_closed()
        run = self._run
        if run.claim is not self:
            raise ClaimLost(f"this claim on run {run.name!r} was released; claim the run again")
        if consumes:
            _refuse_unknown(run, consumes)
        if unless and run.inbox and self._waits(unless, consumes):
            raise MessageWaits(run.name)
        if consumes:
            run.inbox = {one: m for one, m in run.inbox.items() if one not in consumes}
        if releases:
            run.claim = None
        run.records += records
        return len(run.records)

    async def inbox(self) -> list[InboxMessage]:
        self._journal.refuse_closed()
        return list(self._run.inbox.values())

    async def release(self, unless: Sequence[str] = ()) -> bool:
        if self._run.claim is self:
            if self._waits(unless):
                return False
            self._run.claim = None
        return True

    def _waits(self, kinds: Sequence[str], but: Sequence[str] = ()) -> bool:
        """Whether a message of one of the kinds waits, except those with the ids `but`."""
        waiting = self._run.inbox.values()
        return any(m.kind in kinds and m.message_id not in but for m in waiting)


class MemoryJournal:
    """A `Journal` for one event loop."""

    keeps_texts = False

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        """`clock` gives the time of claims, in Unix seconds."""
        self._clock = clock
        self._runs: dict[str, _Run] = {}
        self._created = 0
        """How many runs were created."""
        self._definitions: dict[str, str] = {}
        self._claim_data = claim_data()
        self.is_closed = False
        self.contents = Contents()

    def refuse_closed(self) -> None:
        """Raise `JournalError` if the journal is closed."""
        if self.is_closed:
            raise JournalError("the journal in memory is closed; open it again")

    async def create(
        self, run: str, *, machine: str, definition: str, records: Sequence[NewRecord]
    ) -> MemoryClaim:
        for what, text in (("run", run), ("machine", machine), ("definition", definition)):
            refuse_text(f"the name of the {what}", text)
        _refuse_texts(records)
        self.refuse_closed()
        if run in self._runs:
            raise RunExists(run)
        now = self._clock()
        created_at, self._created = (records[0].at if records else now), self._created + 1
        self._runs[run] = _Run(run, machine, definition, created_at, self._created, [])
        return self._claim(self._runs[run], records, now)

    async def claim(self, run: str) -> MemoryClaim:
        known = self._find(run)
        if known.claim is not None:
            raise _busy(known, known.claim)
        return self._claim(known, (), self._clock())

    def _claim(self, run: _Run, records: Sequence[NewRecord], now: float) -> MemoryClaim:
        run.begun += (len(run.records),)
        run.claim = MemoryClaim(self, run, now)
        run.records += (NewRecord(CLAIMED, now, self._claim_data), *records)
        return run.claim

    async def has(self, run: str) -> bool:
        refuse_text("the name of the run", run)
        self.refuse_closed()
        return run in self._runs

    async def read(self, run: str, after: int = 0, limit: int | None = None) -> list[Record]:
        return self._find(run).behind(after, limit)

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
        self.refuse_closed()
        newest_first: Iterable[_Run] = reversed(self._runs.values())
        if before is not None:
            place = self._runs[before].place if before in self._runs else 0
            newest_first = (r for r in newest_first if r.place < place)
        wanted = [r for r in newest_first if machine in (None, r.machine) and run in (None, r.name)]
        if run is None and not children:
            wanted = [r for r in wanted if not is_child(r.name)]
        if skipping:
            wanted = [r for r in wanted if r.records[-1].type not in skipping]
        return [_row(one) for one in wanted[: max(limit, 0)]]

    async def histories(
        self, machine: str | None = None, *, before: int | None = None, limit: int = 50
    ) -> list[History]:
        refuse_text("a filter of runs", machine or "")
        self.refuse_closed()
        newest_first = reversed(self._runs.values())
        wanted = (r for r in newest_first if machine in (None, r.machine))
        found = (r for r in wanted if before is None or r.place < before)
        return [History(r.place, _row(r), r.behind(0)) for r in islice(found, limit)]

    async def find_runs(self, beginning: str, limit: int = 1000) -> list[str]:
        refuse_text("the beginning of an id", beginning)
        self.refuse_closed()
        begin = [run for run in reversed(self._runs) if run.startswith(beginning)]
        found = [run for run in begin if not is_child(run[len(beginning) :])]
        return found[: max(limit, 0)]

    async def remove(self, *runs: str) -> None:
        named = {self._find(run).name for run in runs}
        family = [
            r for r in self._runs.values() if not named.isdisjoint((r.name, *ancestors_of(r.name)))
        ]
        for known in family:
            if known.claim is not None:
                raise _busy(known, known.claim)
        for known in family:
            del self._runs[known.name]
        self.contents.forget([known.name for known in family])

    async def store_definition(self, digest: str, text: str) -> None:
        refuse_text("the digest of a definition", digest)
        refuse_text(f"the definition {digest}", text)
        self.refuse_closed()
        self._definitions.setdefault(digest, text)

    async def definition(self, digest: str) -> str:
        refuse_text("the digest of a definition", digest)
        self.refuse_closed()
        if digest not in self._definitions:
            raise UnknownDefinition(digest)
        return self._definitions[digest]

    async def post(self, run: str, kind: str, message_id: str, data: str, at: float) -> str | None:
        for what, text in (("kind", kind), ("id", message_id), ("data", data)):
            refuse_text(f"the {what} of a message", text)
        refuse_time("a message", at)
        known = self._find(run)
        if message_id in known.posted:
            return known.posted[message_id]
        known.posted = {**known.posted, message_id: data}
        known.inbox = {**known.inbox, message_id: InboxMessage(kind, message_id, data, at)}
        return None

    async def close(self) -> None:
        self.is_closed = True
        self.contents.close()

    def _find(self, run: str) -> _Run:
        refuse_text("the name of the run", run)
        self.refuse_closed()
        if run not in self._runs:
            raise UnknownRun(run)
        return self._runs[run]


def _refuse_texts(records: Sequence[NewRecord]) -> None:
    """Raise `JournalError`, as every journal does, for records with a text that can't be stored."""
    if texts := [record for record in records if isinstance(record.data, str)]:
        refuse_records(texts)


def _refuse_unknown(run: _Run, messages: Sequence[str]) -> None:
    """Raise `JournalError` for the first message that does not wait in the inbox of a run."""
    refuse_messages(messages)
    waiting = set(run.inbox)
    for message_id in messages:
        if message_id not in waiting:
            raise NotInInbox(run.name, message_id)
        waiting.remove(message_id)


def _busy(run: _Run, claim: MemoryClaim) -> RunBusy:
    return RunBusy(run.name, Owner(os.getpid(), os.uname().nodename, claim.since))


def _row(run: _Run) -> RunRow:
    return RunRow(
        run.name,
        run.machine,
        run.definition,
        run.created_at,
        run.records[-1].at,
        len(run.records),
        run.claim is not None,
    )
