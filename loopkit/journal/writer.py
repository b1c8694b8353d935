"""One thread that owns the connection and commits whatever waits for it together.

A commit costs one wait for the disk, however many runs share it. Each job runs
in a savepoint of its own, so a conflict of one run undoes nothing of another's.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, Generic, NamedTuple, TypeVar

from loopkit.journal.faults import unusable
from loopkit.journal.port import JournalError, JournalUnusable

T = TypeVar("T")
_GROUP_MAX = 1000


def _nothing() -> None:
    pass


class Outcome(asyncio.Future[T]):
    """What a job comes to. Nobody can cancel it: a waiting caller is cancelled when it is known."""

    def cancel(self, msg: Any | None = None) -> bool:
        return False


class Job(NamedTuple, Generic[T]):
    """What somebody asked for."""

    work: Callable[[sqlite3.Connection], T]
    committed: Callable[[], None]
    outcome: Outcome[T]
    writes: bool


class _Settled(NamedTuple):
    outcome: Outcome[Any]
    result: Any = None
    error: Exception | None = None


class Writer:
    """Runs jobs in the order they came; reads see every write that was acknowledged before.

    It takes over `connection` and closes it. `place` is named in error messages.
    With a `fault`, every job that writes is refused for it.
    """

    def __init__(
        self, connection: sqlite3.Connection, place: str, fault: JournalUnusable | None = None
    ) -> None:
        self._connection = connection
        self._place = place
        self._fault = fault
        self._jobs: SimpleQueue[Job[Any] | None] = SimpleQueue()
        self._end: Outcome[None] | None = None
        self._start()

    def _start(self) -> None:
        threading.Thread(target=self._serve, name="loopkit-journal", daemon=True).start()

    @property
    def closed(self) -> bool:
        return self._end is not None

    def read(self, work: Callable[[sqlite3.Connection], T]) -> Outcome[T]:
        """The outcome of `work`, which writes nothing."""
        return self._ask(work, _nothing, writes=False)

    def write(
        self, work: Callable[[sqlite3.Connection], T], committed: Callable[[], None] = _nothing
    ) -> Outcome[T]:
        """The outcome of `work` once it is durable; `committed` is called in the thread then.

        Raises `JournalUnusable` where the journal can only be read.
        """
        if self._fault is not None:
            raise JournalUnusable(str(self._fault)) from self._fault
        return self._ask(work, committed, writes=True)

    def close(self) -> Outcome[None]:
        """The end of everything asked for before, and of the thread."""
        if self._end is None:
            self._end = Outcome()
            self._jobs.put(None)
        return self._end

    def _ask(
        self,
        work: Callable[[sqlite3.Connection], T],
        committed: Callable[[], None],
        *,
        writes: bool,
    ) -> Outcome[T]:
        if self.closed:
            raise JournalError(f"the journal {self._place} is closed; open it again")
        job = Job(work, committed, Outcome[T](), writes)
        self._take_on(job)
        return job.outcome

    def _take_on(self, job: Job[Any]) -> None:
        self._jobs.put(job)

    def _serve(self) -> None:
        closing = False
        while not closing:
            taken = self._take()
            closing = taken[-1] is None
            jobs = [job for job in taken if job is not None]
            _deliver([self._answer(job) for job in jobs if not job.writes])
            _deliver(self._commit([job for job in jobs if job.writes]))
        self._finish()

    def _take(self) -> Sequence[Job[Any] | None]:
        taken = [self._jobs.get()]
        while len(taken) < _GROUP_MAX and not self._jobs.empty():
            taken.append(self._jobs.get())
        return taken

    def _answer(self, job: Job[Any]) -> _Settled:
        try:
            return self._perform(job)
        except Exception as error:  # noqa: BLE001 - whatever it is, its place is with the caller
            return _Settled(job.outcome, error=self._explained(error))

    def _commit(self, jobs: Sequence[Job[Any]]) -> Sequence[_Settled]:
        if not jobs:
            return []
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            # A job without company needs no savepoint: its failure is the transaction's.
            run = self._attempt if len(jobs) > 1 else self._perform
            settled = [run(job) for job in jobs]
            self._connection.execute("COMMIT")
            for job, done in zip(jobs, settled, strict=True):
                if done.error is None:
                    job.committed()
        except Exception as error:  # noqa: BLE001 - a lost outcome would hang its caller
            self._roll_back()
            return [_Settled(job.outcome, error=self._explained(error)) for job in jobs]
        return settled

    def _perform(self, job: Job[Any]) -> _Settled:
        return _Settled(job.outcome, job.work(self._connection))

    def _attempt(self, job: Job[Any]) -> _Settled:
        self._connection.execute("SAVEPOINT job")
        try:
            settled = self._perform(job)
        except sqlite3.Error:
            raise
        except Exception as error:  # noqa: BLE001 - fails this job and none of its group
            self._connection.execute("ROLLBACK TO job")
            settled = _Settled(job.outcome, error=self._explained(error))
        self._connection.execute("RELEASE job")
        return settled

    def _roll_back(self) -> None:
        # The group's callers get the error that led here; one of the rollback itself would
        # come back at the next group's BEGIN, which is rolled back again.
        with suppress(sqlite3.Error):
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")

    def _finish(self) -> None:
        if self._end is None:
            return
        try:
            self._connection.close()
            _deliver([_Settled(self._end)])
        except sqlite3.Error as error:
            _deliver([_Settled(self._end, error=self._explained(error))])

    def _explained(self, error: Exception) -> Exception:
        return unusable(error, self._place) if isinstance(error, sqlite3.Error | OSError) else error


def _deliver(settled: Iterable[_Settled]) -> None:
    """Wake the callers, with one call for each event loop."""
    by_loop: dict[asyncio.AbstractEventLoop, list[_Settled]] = {}
    for one in settled:
        by_loop.setdefault(one.outcome.get_loop(), []).append(one)
    for loop, own in by_loop.items():
        # A loop that was closed has no callers left who could be told.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(settle, own)


def settle(settled: Iterable[_Settled]) -> None:
    """Tell those who wait, in the thread of their event loop."""
    for one in settled:
        if one.error is None:
            one.outcome.set_result(one.result)
        else:
            one.outcome.set_exception(one.error)
