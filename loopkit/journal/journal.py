"""The port of the journal: the records of all runs, whichever store keeps them.

It does not know what a record means. It keeps three promises: an acknowledged append survives a
crash, an append is stored whole or not at all, and an owner that lost the claim on a run can no
longer write to it.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from loopkit import DISTRIBUTION
from loopkit.journal.contents import ContentStore
from loopkit.journal.errors import ClaimLost, JournalUnusable, NoTables
from loopkit.journal.files import is_unused
from loopkit.journal.records import (
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
)
from loopkit.journal.sqlite import open_sqlite


def open_journal(
    place: Path | str | None,
    *,
    readonly: bool = False,
    if_used: bool = False,
    clock: Callable[[], float] = time.time,
) -> Journal:
    """The journal in a state folder, made if it is missing, or at a URL; without either in memory.

    With `if_used` none is made; where there is none, it is one in memory. Raises JournalUnusable,
    and where the journal can still be read only once something is to be written. With `readonly` it
    shows the journal that is in the folder now, and no file of it is ever written. There may be
    none yet: then there are no runs. If it is replaced or removed while it is open, the next
    request notices that. `clock` gives the time of claims, in Unix seconds.
    """
    if isinstance(place, str):
        with postgres():
            from loopkit.journal.postgres.store import open_postgres  # noqa: PLC0415
        try:
            return open_postgres(place, clock, readonly=readonly)
        except NoTables:
            if not if_used:
                raise
            place = None
    is_in_memory = place is None or (if_used and is_unused(place))
    return open_sqlite(None if is_in_memory else place, clock, readonly=readonly)


@contextmanager
def postgres() -> Iterator[None]:
    """While what knows PostgreSQL is imported, which takes its time and is an extra."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name not in ("psycopg", "procrastinate"):
            raise
        raise JournalUnusable(
            f"a journal in PostgreSQL needs {error.name}; pip install '{DISTRIBUTION}[postgres]'"
        ) from error


class Claim(Protocol):
    """The right to write to one run, until it is released or its process ends.

    A new run is stored with the first records that are appended to it.
    """

    run: str
    due: float | None
    """When the run was due as it was claimed; a submitted one whose owner was killed, at once."""

    @property
    def epoch(self) -> int: ...

    @property
    def seq(self) -> int:
        """The number of the run's last record that this claim has written or seen."""

    def on_loss(self, tell: Callable[[ClaimLost], None]) -> None:
        """Let `tell` be called in the event loop when others may take the run over."""

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

    async def inbox(self) -> list[InboxMessage]:
        """The messages that no append has consumed, oldest first."""

    async def release(self, unless: Sequence[str] = (), *, due: float | None = None) -> bool:
        """Let others claim the run; a second release, or one after a loss, changes nothing.

        False if messages of the kinds `unless` wait: then the claim is kept. The run is `due` from
        that Unix time on, or never; but a submitted one is due now while any message waits.
        """


class Journal(Protocol):
    """The records of all runs, for one event loop. Every request may raise JournalUnusable."""

    era: object
    """What a place is valid in: a journal that was replaced by another one has another era."""
    keeps_texts: bool
    """Whether records are written as text at once, and not when somebody asks for them."""

    def now(self) -> float:
        """The time of records in Unix seconds, which all processes of a journal share."""

    @property
    def owner(self) -> str:
        """The name under which runs are claimed here."""

    @property
    def contents(self) -> ContentStore: ...

    @property
    def limits(self) -> SharedLimits | None:
        """What its processes have to keep together; None where there is only one."""

    def begin(
        self, run: str, *, machine: str, definition: str, needs: Sequence[str] | None = None
    ) -> Claim:
        """The claim on a new run, which is stored with what is first appended to it.

        Record 1 is the claim itself. With `needs` the run is submitted (see `submit`).
        """

    async def claim(self, run: str) -> Claim:
        """Claim a run without a living owner, whether its last one released it or was killed.

        Raises UnknownRun and RunBusy.
        """

    async def submit(self, run: str, needs: Sequence[str] = ()) -> None:
        """Make a run due now, for any process that has the labels it `needs`; raises UnknownRun.

        From then on it is due as well whenever somebody posts to it, or its owner was killed.
        """

    async def due(
        self, limit: int = 1000, labels: Sequence[str] = (), *, every: bool = False
    ) -> list[Due]:
        """At most `limit` submitted runs that are due and have no living owner, oldest first.

        Those that need other labels are left out. Of processes that ask for them at the same moment
        one looks after the other. `every` run that is due is given with it, also
        those that were not submitted. A run is due as soon as one of its children is.
        """

    async def is_submitted(self, run: str) -> bool:
        """Whether a run is left to workers."""

    async def mailed(self) -> list[str]:
        """The runs that are claimed here and for which messages wait."""

    async def standings(self) -> list[Standing]:
        """How many runs there are of each kind; their histories are not read."""

    async def heed_hints(self, heed: Callable[[], Awaitable[None]]) -> None:
        """Call `heed` when others say that runs are due, until this is cancelled.

        It may miss any number of times and may end, so that `due` has to be asked as well. Of
        several processes one heeds each hint; it gets the next one when `heed` has ended.
        """

    async def has(self, run: str) -> bool:
        """Whether there is a run of this name, damaged or not."""

    async def read(self, run: str, after: int = 0, limit: int | None = None) -> list[Record]:
        """The run's records after `after`, in order, all or the first ones up to `limit`.

        Raises UnknownRun and RunDamaged.
        """

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

    async def histories(
        self, machine: str | None = None, *, before: int | None = None, limit: int = 50
    ) -> list[History]:
        """At most `limit` runs, children included, with their records, the newest created first.

        With `before`, only runs created before the run of that place, so that any number of runs
        can be read in parts.
        """

    async def find_runs(self, beginning: str, limit: int = 1000) -> list[str]:
        """At most `limit` ids of runs that begin with `beginning`, the newest created first.

        Children of these runs are left out.
        """

    async def records_after(self, after: Place, family: str | None = None) -> list[Placed]:
        """The next records after a place, of all runs or of one and its children, in order.

        At most some hundreds and some megabytes; empty if there are no more.
        """

    async def newest(self) -> Place: ...

    def place_in(self, text: str) -> Place | None:
        """The place that a text names, as `str` gives it; None if it names none."""

    async def remove(self, *runs: str) -> None:
        """Remove runs with their children, records and messages; all or none.

        Contents of folders that only they have kept are removed as well, and so are definitions
        that no run names any more, unless another process may be about to begin a run with one.
        Raises UnknownRun, and RunBusy if a living process owns one.
        """

    async def store_definition(self, digest: str, text: str) -> None:
        """Keep `text` under its digest; storing it again changes nothing."""

    async def definition(self, digest: str) -> str:
        """The text stored under `digest`; raises UnknownDefinition."""

    async def post(self, run: str, kind: str, message_id: str, data: str, at: float) -> str | None:
        """Post a message for the run's owner, unless its id was posted before.

        In that case the data that was posted first stays, and is returned. Anyone may post, at any
        time, and a submitted run is due then. Raises UnknownRun.
        """

    async def close(self) -> None:
        """Finish all requests, then release every claim and file."""
