"""The port of the journal: the records of all runs, whichever store keeps them.

It does not know what a record means. It keeps three promises: an acknowledged append survives a
crash, an append is stored whole or not at all, and an owner that lost the claim on a run can no
longer write to it.

What needs one statement is here, for all stores: each has its own, under the same name.
"""

from __future__ import annotations

import asyncio
import json
import os
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from loopkit.journal.contents import Contents
from loopkit.journal.errors import (
    ClaimLost,
    JournalError,
    MessageWaits,
    RunDamaged,
    UnknownDefinition,
    UnknownRun,
)
from loopkit.journal.files import Job
from loopkit.journal.records import (
    CLAIMED,
    AccountStanding,
    Change,
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
    Standing,
    refuse_records,
    refuse_texts,
)

MOST_BYTES = 4_000_000
"""Of records to read at once; the last record may exceed them."""
EMPTY = "it has no records"


Ask = Callable[[str, Any], Awaitable[list[tuple[Any, ...]]]]
"""The rows of a statement in a transaction."""


@dataclass(frozen=True)
class SharedLimits:
    """What the processes of one journal keep together. Every request may raise JournalUnusable.

    Times are those of the database. What is done again as an answer was lost does no more.
    """

    _journal: Journal
    _transact: Callable[[Callable[[Ask], Awaitable[Any]]], Awaitable[Any]]

    async def open_account(self, account: str, limit: float | None, spent: float) -> None:
        """Set the limit of an account; a new one has `spent` so much before."""
        await self._journal.execute("open_account", (account, limit, spent))

    async def standing(self, account: str) -> AccountStanding | None:
        """None if there is no such account."""
        values = {"account": account, "owner": self._journal.owner}
        found = await self._journal.look("standing", values)
        return AccountStanding(*found[0]) if found else None

    async def hold(self, account: str, run: str, key: str, usd: float) -> bool:
        """Hold an amount for a call, instead of what was held for its key; 0 frees that.

        False, and nothing is held, if there is no room. What is held outlives this process, because
        the call may have been made: it is settled with the record of its reply or of its doubt.
        """
        owner = await self._journal.present()
        values = {"account": account, "run": run, "key": key, "usd": usd, "owner": owner}

        async def work(ask: Ask) -> bool:
            await ask("free_hold", values)
            if usd:
                if not await ask("hold", values):
                    return False
                await ask("note_hold", values)
            return True

        return bool(await self._transact(work))

    async def free_others(self, run: str, keys: Collection[str]) -> None:
        """Free what an earlier owner of a run has held for calls that it did not come to record."""
        await self._journal.execute("free_other_holds", (run, [*keys]))

    async def circuits(self) -> Mapping[str, Circuit]:
        """Those of all providers that have failed since they last answered."""
        found = await self._journal.look("circuits")
        return {name: Circuit(*circuit) for name, *circuit in found}

    async def record_failure(
        self, provider: str, closed_s: float, threshold: int, opens_s: float
    ) -> None:
        """Note a failure after which nobody may call for `closed_s`, as the provider says; at the
        `threshold` of failures in a row for `opens_s` at least."""
        values = {"provider": provider, "closed": closed_s, "opens": opens_s}
        await self._journal.execute("record_failure", {**values, "threshold": threshold})

    async def record_answer(self, provider: str) -> None:
        """Note that the provider answered, if only to refuse."""
        await self._journal.execute("record_answer", (provider,))

    async def probe(self, provider: str) -> bool:
        """Whether this process may call to see if the provider answers again; only one may."""
        values = {"provider": provider, "owner": await self._journal.present()}
        return bool(await self._journal.execute("probe", values))

    async def release_probe(self, provider: str) -> None:
        """Let another process see to that."""
        await self._journal.execute("release_probe", (provider, self._journal.owner))

    async def take_calls(
        self, provider: str, held: int, wanted: int, rate: Rate
    ) -> tuple[int, float]:
        """How many of the `wanted` calls may be made now besides the `held` ones of this process,
        and when to ask for the others. The calls of a process that was killed count no more."""
        owner = await self._journal.present()

        async def work(ask: Ask) -> tuple[int, float]:
            [(ahead_s,)] = await ask("lock_provider", (provider,))
            [(elsewhere,)] = await ask("calls_elsewhere", (provider, owner))
            granted, wait_s = rate.grant(wanted, held + elsewhere, ahead_s)
            await ask("use_minute", (granted * rate.interval_s, provider))
            await ask("note_calls", (provider, owner, held + granted))
            return granted, wait_s

        granted, wait_s = await self._transact(work)
        return granted, wait_s


@dataclass(eq=False)
class Claim:
    """The right to write to one run, until it is released or its process ends.

    A new run is stored with the first records that are appended to it.
    """

    _journal: Journal
    run: str
    row: int = 0
    epoch: int = 1
    seq: int = 0
    """The number of the run's last record that this claim has written or seen."""
    due: float | None = None
    """When the run was due as it was claimed; a submitted one whose owner was killed, at once."""
    _seen: int = 0
    new: tuple[str, str, Sequence[str] | None] = ("", "", None)
    """The machine, definition and labels of a run that is not stored yet."""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    is_released: bool = False
    fault: JournalError | None = None
    """Why nothing can follow."""
    tell: Callable[[ClaimLost], None] = lambda _: None
    """Called in the event loop when others may take the run over."""

    def lose(self, loss: ClaimLost) -> None:
        """Append nothing more."""
        self.fault = loss
        self.tell(loss)

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
        """Append records, take the messages `consumes` off the inbox, return the new `seq`.

        All of it is durable on return, or none of it is written. With `unless`, nothing is written
        while messages of these kinds wait that are not consumed. An append that `releases` the
        claim is its last one, with `due` as in `release`; with another, that counts if the process
        is killed. Concurrent appends are made one after the other. A cancelled caller gets its
        CancelledError when the append has ended, so `seq` shows whether it was written. With the
        records, calls that accounts have held an amount for are settled.

        Raises ClaimLost, SequenceConflict, MessageWaits, JournalUnusable, RunExists if a new run's
        name was taken meanwhile, and JournalError if a message was consumed before or never posted.
        """
        records, consumes = tuple(records), tuple(consumes)
        refuse_records(records, consumes)
        if not consumes and self._journal.keep(self, records, releases=releases, due=due):
            return self.seq
        async with self.lock:
            self.refuse_ended()
            change = self.change(records, consumes, releases, due, unless, settles)
            if not self.row:
                change.owner = await self._journal.present()
                change.records = (self._journal.claimed(), *records)
            await self._make(change)
            return self.seq

    def refuse_ended(self) -> None:
        if self.is_released:
            raise ClaimLost(f"this claim on run {self.run!r} was released; claim the run again")
        self._journal.give_up_if_overdue()
        if self.fault is not None:
            raise self.fault

    def change(
        self,
        records: Sequence[NewRecord],
        consumes: Sequence[str],
        releases: bool,
        due: float | None,
        unless: Sequence[str] = (),
        settles: Sequence[Settlement] = (),
    ) -> Change:
        seq = self.seq if self.row else 0
        return Change(
            self.run, self.row, self.epoch, seq, records, consumes, releases, due, unless, settles,
            *self.new, seen=self._seen,
        )  # fmt: skip

    async def _make(self, change: Change) -> None:
        job = self._journal.make(change)
        try:
            await job
        finally:
            # Also for a cancelled caller, because the records are written.
            if job.has_succeeded:
                self.take(change, job.result())

    def take(self, change: Change, row: int) -> None:
        """Go on behind a change that was made."""
        is_known, self.row, self.seq = self.row > 0, row, change.end
        self._seen, self.is_released = change.seen, change.releases
        if change.releases or not is_known:
            self._journal.hold(self, change.owner)

    async def inbox(self) -> list[InboxMessage]:
        found = await self._journal.look("inbox", {"row": self.row}) if self.row else []
        return [InboxMessage(*message) for message in found]

    async def release(self, unless: Sequence[str] = (), *, due: float | None = None) -> bool:
        """Let others claim the run; a second release, or one after a loss, changes nothing.

        False if messages of the kinds `unless` wait: then the claim is kept. The run is `due` from
        that Unix time on, or never; but a submitted one is due now while any message waits.
        """
        async with self.lock:
            # A closed journal has released all its claims.
            if self.is_released or self._journal.closed or self.fault is not None:
                return True
            if not self.row:
                self.is_released, self.due = True, due
                return True
            try:
                await self._make(self.change((), (), True, due, unless))
            except MessageWaits:
                return False
            return True


class Journal(ABC):
    """The records of all runs, for one event loop. Every request may raise JournalUnusable."""

    era: object = 0
    """What a place is valid in: a journal that was replaced by another one has another era."""
    keeps_texts = True
    """Whether records are written as text at once, and not when somebody asks for them."""
    limits: SharedLimits | None = None
    """What its processes have to keep together; None where there is only one."""
    contents: Contents
    closed = False

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._held: dict[int, Claim] = {}
        self._here = json.dumps({"pid": os.getpid(), "host": os.uname().nodename})

    def now(self) -> float:
        """The time of records in Unix seconds, which all processes of a journal share."""
        return self._clock()

    @property
    @abstractmethod
    def owner(self) -> str:
        """The name under which runs are claimed here."""

    async def present(self) -> str:
        """The name to claim runs with, once there is one."""
        return self.owner

    def claimed(self) -> NewRecord:
        return NewRecord(CLAIMED, self.now(), self._here)

    @abstractmethod
    async def look(self, name: str, values: Any = ()) -> list[tuple[Any, ...]]:
        """The rows of one statement."""

    @abstractmethod
    async def execute(self, name: str, values: Any = ()) -> list[tuple[Any, ...]]:
        """What one statement gives that changes something, once that is durable."""

    @abstractmethod
    def make(self, change: Change) -> Job[int]:
        """The job of a change, which gives the row of the run when it is durable."""

    def keep(
        self, claim: Claim, records: Sequence[NewRecord], *, releases: bool, due: float | None
    ) -> bool:
        """Whether the records of a new run are kept until somebody else asks for them."""
        return False

    def hold(self, claim: Claim, owner: str = "") -> None:
        """Note that a run was claimed, as a new one by an `owner`, or released."""
        if claim.is_released:
            self._held.pop(claim.row, None)
        else:
            self._held[claim.row] = claim

    def give_up_if_overdue(self) -> None:  # noqa: B027 - only a shared journal takes runs away
        """Write nothing that comes of programs which were killed while this process stood still."""

    def begin(
        self, run: str, *, machine: str, definition: str, needs: Sequence[str] | None = None
    ) -> Claim:
        """The claim on a new run, which is stored with what is first appended to it.

        Record 1 is the claim itself. With `needs` the run is submitted (see `submit`).
        """
        refuse_texts("the name of the {}", run=run, machine=machine, definition=definition)
        return Claim(self, run, new=(machine, definition, needs))

    @abstractmethod
    async def claim(self, run: str) -> Claim:
        """Claim a run without a living owner, whether its last one released it or was killed.

        Raises UnknownRun and RunBusy.
        """

    async def _gain(self, job: Job[Claim], owner: str = "") -> Claim:
        try:
            await job
        except asyncio.CancelledError:
            # Nobody got this claim, so nobody else would ever release it.
            if job.has_succeeded:
                claim = job.result()
                self.hold(claim, owner)
                await claim.release(due=claim.due)
            raise
        self.hold(job.result(), owner)
        return job.result()

    async def submit(self, run: str, needs: Sequence[str] = ()) -> None:
        """Make a run due now, for any process that has the labels it `needs`; raises UnknownRun.

        From then on it is due as well whenever somebody posts to it, or its owner was killed.
        """
        submitted = await self.execute("submit", {"run": run, "needs": [*needs]})
        if not submitted:
            raise UnknownRun(run)
        await self.hint(submitted[0][0])

    async def hint(self, row: int) -> None:  # noqa: B027 - only a shared journal has a queue
        """Hint that the run of a row is due; see `heed_hints`."""

    async def due(
        self, limit: int = 1000, labels: Sequence[str] = (), *, every: bool = False
    ) -> list[Due]:
        """At most `limit` submitted runs that are due and have no living owner, oldest first.

        Those that need other labels are left out. Of processes that ask for them at the same moment
        one looks after the other. `every` run that is due is given with it, also
        those that were not submitted. A run is due as soon as one of its children is.
        """
        values = {"labels": [*labels], "every": every, "limit": limit}
        return await self._due(values)

    async def _due(self, values: dict[str, Any]) -> list[Due]:
        return [Due(*found) for found in await self.look("due", values)]

    async def is_submitted(self, run: str) -> bool:
        return bool(await self.look("is_submitted", {"run": run}))

    async def mailed(self) -> list[str]:
        # Nobody can have posted a message to a run that is not stored yet.
        found = await self.look("mailed", {"owner": self.owner}) if self._held else []
        return [str(run) for (run,) in found]

    async def standings(self) -> list[Standing]:
        """How many runs there are of each kind; their histories are not read."""
        return [Standing(*found) for found in await self.look("standings")]

    async def heed_hints(  # noqa: B027 - only a shared journal has a queue
        self, heed: Callable[[], Awaitable[None]]
    ) -> None:
        """Call `heed` when others say that runs are due, until this is cancelled.

        It may miss any number of times and may end, so that `due` has to be asked as well. Of
        several processes one heeds each hint; it gets the next one when `heed` has ended.
        """

    async def has(self, run: str) -> bool:
        return bool(await self.look("run", {"run": run}))

    async def read(self, run: str, after: int = 0, limit: int | None = None) -> list[Record]:
        """The run's records after `after`, in order, all or the first ones up to `limit`.

        Raises UnknownRun and RunDamaged.
        """
        if not (known := await self.look("whole", {"run": run})):
            raise UnknownRun(run)
        [(missing, seq)] = known
        if missing or not seq:
            raise RunDamaged(run, f"record {missing} is missing" if seq else EMPTY)
        until = seq if limit is None else min(seq, after + limit)
        return [Record(*record) for record in await self._read_on(run, [], after, until)]

    async def _read_on(
        self, run: str, found: list[tuple[Any, ...]], after: int, until: int
    ) -> list[tuple[Any, ...]]:
        """What is `found` of the records after one, with the others up to `until`, in parts.

        None of them keeps a database for longer than one request may take.
        """
        while (last := found[-1][0] if found else after) < until:
            values = {"run": run, "after": last, "until": until, "size": MOST_BYTES}
            part = await self.look("read", values)
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
        """At most `limit` runs, of all machines or one, or with one id; the newest created first.

        Children of other runs are included only with `children`, or by their id. With `before`,
        only runs created before that run are returned. Runs whose last record has one of the types
        `skipping` are left out.
        """
        wanted = {"machine": machine, "run": run, "children": children, "before": before}
        values = {**wanted, "below": None, "skipping": [*skipping], "limit": limit}
        return [_run_row(*row[1:]) for row in await self.look("runs", values)]

    async def histories(
        self, machine: str | None = None, *, before: int | None = None, limit: int = 50
    ) -> list[History]:
        """At most `limit` runs, children included, with their records, the newest created first.

        With `before`, only runs created before the run of that place, so that any number of runs
        can be read in parts.
        """
        every: dict[str, Any] = {"run": None, "children": True, "before": None, "skipping": []}
        values = {**every, "machine": machine, "below": before, "limit": limit}
        rows = {row: _run_row(*listed) for row, *listed in await self.look("runs", values)}
        found: dict[str, list[tuple[Any, ...]]] = {row.run: [] for row in rows.values()}
        of_all = {"runs": [*found], "size": MOST_BYTES}
        for run, *record in await self.look("histories", of_all):
            found[run].append(tuple(record))
        histories = []
        for place, row in rows.items():
            # Others may have appended to it, or removed it, since it was listed.
            known = [record for record in found[row.run] if record[0] <= row.seq]
            with suppress(UnknownRun):
                known = await self._read_on(row.run, known, 0, row.seq)
                histories.append(History(place, row, [Record(*record) for record in known]))
        return histories

    async def find_runs(self, beginning: str, limit: int = 1000) -> list[str]:
        """At most `limit` ids of runs that begin with `beginning`, the newest created first.

        Children of these runs are left out.
        """
        values = {"beginning": beginning, "limit": limit}
        return [str(run) for (run,) in await self.look("named", values)]

    @abstractmethod
    async def records_after(self, after: Place, family: str | None = None) -> list[Placed]:
        """The next records after a place, of all runs or of one and its children, in order.

        At most some hundreds and some megabytes; empty if there are no more.
        """

    @abstractmethod
    async def newest(self) -> Place: ...

    @abstractmethod
    def place_in(self, text: str) -> Place | None:
        """The place that a text names, as `str` gives it; None if it names none."""

    @abstractmethod
    async def remove(self, *runs: str) -> None:
        """Remove runs with their children, records and messages; all or none.

        Contents of folders that only they have kept are removed as well, and so are definitions
        that no run names any more, unless another process may be about to begin a run with one.
        Raises UnknownRun, and RunBusy if a living process owns one.
        """

    async def store_definition(self, digest: str, text: str) -> None:
        """Keep `text` under its digest; storing it again changes nothing."""
        refuse_texts("the {} of a definition", digest=digest, text=text)
        await self.execute("store_definition", {"digest": digest, "text": text})

    async def definition(self, digest: str) -> str:
        """The text stored under `digest`; raises UnknownDefinition."""
        found = await self.look("definition", {"digest": digest})
        if not found:
            raise UnknownDefinition(digest)
        return str(found[0][0])

    @abstractmethod
    async def post(self, run: str, kind: str, message_id: str, data: str, at: float) -> str | None:
        """Post a message for the run's owner, unless its id was posted before.

        In that case the data that was posted first stays, and is returned. Anyone may post, at any
        time, and a submitted run is due then. Raises UnknownRun.
        """

    @abstractmethod
    async def close(self) -> None:
        """Finish all requests, then release every claim and file."""


def _run_row(*listed: Any) -> RunRow:
    row = RunRow(*listed)
    # SQLite has no truth values.
    return replace(row, is_driven=bool(row.is_driven))
