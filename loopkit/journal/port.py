"""The port to journals: the records of runs, in order, written by one owner at a time.

A journal does not know what a record means. It keeps three promises: an acknowledged append
survives a crash, an append is stored whole or not at all, and an owner that lost the claim on a run
can no longer write to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

import msgspec

from loopkit.journal.errors import RunDamaged

if TYPE_CHECKING:
    from loopkit.journal.contents import Contents

CLAIMED = "claimed"
"""The type of the one record that the journal itself writes, whenever a run gets an owner."""


SPENDING = "intended"
"""The type of records that announce a call, written only while there is room for its reply."""


class Unwritten(Protocol):
    """Data that can be written as JSON text at any time."""

    def to_json(self) -> str: ...


class NewRecord(msgspec.Struct, frozen=True, gc=False):
    """A record that is not stored yet: `at` in Unix seconds, `data` as JSON text.

    Immutable data may be turned into text later, when the record is stored or read.
    """

    type: str
    at: float
    data: str | Unwritten

    @property
    def text(self) -> str:
        """The data as JSON text."""
        return self.data if isinstance(self.data, str) else self.data.to_json()


class Record(NamedTuple):
    """A stored record: `seq` counts from 1 without gaps, `epoch` is its owner's."""

    seq: int
    epoch: int
    at: float
    type: str
    data: str


@dataclass(frozen=True, slots=True)
class RunRow:
    """One run in a list."""

    run: str
    machine: str
    definition: str
    created_at: float
    updated_at: float
    """The time of the last record; if the records are damaged, of the creation."""
    seq: int
    is_driven: bool
    """Whether a living process owns it."""
    damage: RunDamaged | None = None
    """The damage of the run's records, which does not prevent listing other runs."""


class History(NamedTuple):
    """A run in a list, with its records in order; without records if they are damaged."""

    place: int
    """Its place in the order in which runs were created."""
    row: RunRow
    records: Sequence[Record]


@dataclass(frozen=True, slots=True)
class InboxMessage:
    """An answer or a cancellation that waits for the owner of its run."""

    kind: str
    message_id: str
    data: str
    at: float


class Claim(Protocol):
    """The right to write to one run, until it is released or its process ends."""

    @property
    def run(self) -> str: ...

    @property
    def epoch(self) -> int: ...

    @property
    def seq(self) -> int:
        """The number of the run's last record that this claim has written or seen."""
        ...

    async def append(
        self,
        records: Sequence[NewRecord],
        consumes: Sequence[str] = (),
        *,
        releases: bool = False,
        unless: Sequence[str] = (),
    ) -> int:
        """Append `records`, take the messages `consumes` off the inbox, return the new `seq`.

        An append that `releases` the claim is its last one. With `unless`, nothing is written while
        messages of these kinds wait that are not consumed.

        All of it is durable on return, or none of it is written. Concurrent appends on one claim
        are made one after the other. A cancelled caller gets its `CancelledError` when the append
        has ended, so `seq` always shows whether it was written.

        Raises `ClaimLost`, `SequenceConflict`, `MessageWaits`, `JournalUnusable`, and
        `JournalError` if a message was consumed before or never posted.
        """
        ...

    async def inbox(self) -> list[InboxMessage]:
        """The messages that no append has consumed, oldest first."""
        ...

    async def release(self, unless: Sequence[str] = ()) -> bool:
        """Let others claim the run; a second release, or one after a loss, changes nothing.

        False if messages of the kinds `unless` wait: then the claim is kept.
        """
        ...


class Journal(Protocol):
    """The records of all runs."""

    @property
    def contents(self) -> Contents:
        """The contents of their folders."""
        ...

    @property
    def keeps_texts(self) -> bool:
        """Whether it stores the data of records as text, and not as objects."""
        ...

    async def create(
        self, run: str, *, machine: str, definition: str, records: Sequence[NewRecord]
    ) -> Claim:
        """Make a run and claim it: record 1 is the claim, `records` follow it.

        Raises `RunExists`, `JournalUnusable`.
        """
        ...

    async def claim(self, run: str) -> Claim:
        """Claim a run without a living owner, whether its last one released it or was killed.

        Raises `UnknownRun`, `RunBusy`, `JournalUnusable`.
        """
        ...

    async def has(self, run: str) -> bool:
        """Whether there is a run of this name, damaged or not."""
        ...

    async def read(self, run: str, after: int = 0, limit: int | None = None) -> list[Record]:
        """The run's records after `after`, in order, all or the first ones up to `limit`.

        Raises `UnknownRun`, `RunDamaged`.
        """
        ...

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
        ...

    async def histories(
        self, machine: str | None = None, *, before: int | None = None, limit: int = 50
    ) -> list[History]:
        """At most `limit` runs, children included, with their records, the newest created first.

        With `before`, only runs created before the run of that place, so that any number of runs
        can be read in parts.
        """
        ...

    async def find_runs(self, beginning: str, limit: int = 1000) -> list[str]:
        """At most `limit` ids of runs that begin with `beginning`, the newest created first.

        Children of these runs are left out.
        """
        ...

    async def remove(self, *runs: str) -> None:
        """Remove runs with their children, records and messages; all or none.

        None of them may be owned by a living process.

        Contents of folders that only they have kept are removed as well.

        So are definitions that no run names any more, unless another process may be about to begin
        a run with one. Raises `UnknownRun`, `RunBusy`, `JournalUnusable`.
        """
        ...

    async def store_definition(self, digest: str, text: str) -> None:
        """Keep `text` under its digest; storing it again changes nothing."""
        ...

    async def definition(self, digest: str) -> str:
        """The text stored under `digest`; raises `UnknownDefinition`."""
        ...

    async def post(self, run: str, kind: str, message_id: str, data: str, at: float) -> str | None:
        """Post a message for the run's owner, unless its id was posted before.

        In that case the data that was posted first stays, and is returned. Anyone may post, at any
        time. Raises `UnknownRun`.
        """
        ...

    async def close(self) -> None:
        """Finish all requests, then release every claim and file."""
        ...
