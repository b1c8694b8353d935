"""The writer, the only user of the connection: jobs of one event-loop turn share a commit.

A commit costs one wait for the disk, however many runs share it. If one of them is refused, all are
done again, each in a savepoint of its own, so a conflict of one run undoes nothing of another's. If
no other run could join, a job is done at once and not in the next turn. While another process
writes, the jobs wait, and the event loop does not.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from loopkit.journal.errors import JournalError, JournalUnusable, is_sqlite, unusable

T = TypeVar("T")
Work = Callable[[sqlite3.Connection], T]
_LONGEST_WAIT_S = 10.0
"""How long another process may keep the file locked; its own commits take milliseconds."""
_LOOK_AGAIN_S = 0.005
_MOST_AT_ONCE = 8
"""The jobs of a run alone that are done before the event loop gets a turn, for timers and signals.

They are counted and not timed, so that the same requests always share the same commits.
"""


class Job(asyncio.Future[T]):
    """A request. It can't be cancelled: a waiting caller is cancelled when the result is known."""

    __slots__ = ("work", "writes")

    def __init__(self, work: Work[T], *, writes: bool) -> None:
        super().__init__()
        self.work = work
        self.writes = writes

    def cancel(self, msg: Any | None = None) -> bool:
        return False

    @property
    def has_succeeded(self) -> bool:
        return self.done() and self.exception() is None

    def settle(self, result: Any) -> None:
        # The loop of a job may have been closed too early.
        with suppress(RuntimeError):
            if isinstance(result, Exception):
                self.set_exception(result)
            else:
                self.set_result(result)


class _Locked(Exception):
    def __init__(self, error: sqlite3.Error) -> None:
        super().__init__(str(error))
        self.error = error


class Writer:
    """Runs jobs in the order they came; reads see every write that was acknowledged before."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        place: str,
        path: Path | None,
        fault: JournalUnusable | None = None,
    ) -> None:
        """It takes over the connection to the file at `path`, or without one to a memory.

        `place` is named in messages. With a `fault`, every job that writes is refused.
        """
        self._connection = connection
        self._place = place
        self._path = path
        self._fault = fault
        self._file = path.stat() if path and fault is None else None
        self._jobs: list[Job[Any]] = []
        self._locked_since: float | None = None
        self._left = 0
        """How many jobs may still be done at once before the event loop gets a turn."""
        self.version = 0
        """The version of the file in this transaction; another connection's write changes it."""
        self.claims = 0
        self.closed = False
        # Jobs wait for another process's commit in the event loop and not in SQLite.
        connection.execute("PRAGMA busy_timeout = 0")

    def read(self, work: Work[T]) -> Job[T]:
        """The job of `work`, which writes nothing."""
        return self._ask(Job(work, writes=False))

    def write(self, work: Work[T]) -> Job[T]:
        """The job of `work`, which is done once its changes are durable.

        Raises JournalUnusable if the journal can only be read.
        """
        if self._fault is not None:
            raise self._fault.with_traceback(None)
        return self._ask(Job(work, writes=True))

    async def close(self) -> None:
        """Finish all requests made before, and close the file."""
        if self.closed:
            return
        self.closed = True
        if self._jobs:
            await asyncio.wait(self._jobs)
        try:
            self._connection.close()
        except sqlite3.Error as error:
            raise unusable(error, self._place) from error

    def look(self, work: Work[T]) -> T:
        """What is read at once from a journal in memory, where nothing is waited for."""
        self.refuse_closed()
        return work(self._connection)

    def refuse_closed(self) -> None:
        if self.closed:
            raise JournalError(f"the journal {self._place} is closed; open it again")

    def _ask(self, job: Job[T]) -> Job[T]:
        self.refuse_closed()
        loop, waiting = job.get_loop(), self._jobs[-1:]
        self._jobs.append(job)
        # A loop that was closed too early serves no jobs; those that it left are done as well.
        if waiting and waiting[0].get_loop() is loop:
            return job
        if self._path is None:
            # There is no wait for a disk that others could share.
            self._serve()
        elif self.claims <= 1 and self._left:
            self._left -= 1
            self._serve()
        else:
            loop.call_soon(self._take_turn)
        return job

    def _take_turn(self) -> None:
        self._left = _MOST_AT_ONCE
        self._serve()

    def _serve(self) -> None:
        """Do all jobs; those that can't be done now wait."""
        jobs, self._jobs = self._jobs, []
        waiting: list[Job[Any]] = []
        for do, writes in ((self._answer, False), (self._commit, True)):
            some = [job for job in jobs if job.writes is writes]
            try:
                for job, result in zip(some, do(some) if some else (), strict=True):
                    job.settle(result)
            except _Locked as locked:
                error = locked.error
                waiting += some
        if waiting:
            self._wait(waiting, error)
        else:
            self._locked_since = None

    def _wait(self, jobs: list[Job[Any]], error: sqlite3.Error) -> None:
        now = time.monotonic()
        self._locked_since = self._locked_since or now
        if now - self._locked_since < _LONGEST_WAIT_S:
            self._jobs = jobs
            jobs[-1].get_loop().call_later(_LOOK_AGAIN_S, self._serve)
            return
        self._locked_since = None
        for job in jobs:
            job.settle(self._explain(error))

    def _answer(self, jobs: Sequence[Job[Any]]) -> list[Any]:
        results: list[Any] = []
        for job in jobs:
            try:
                results.append(job.work(self._connection))
            except Exception as error:
                if isinstance(error, sqlite3.Error) and is_sqlite(error, "SQLITE_BUSY"):
                    raise _Locked(error) from error
                results.append(self._explain(error))
        return results

    def _commit(self, jobs: Sequence[Job[Any]], *, apart: bool = False) -> list[Any]:
        """The results of jobs done in one transaction, with `apart` each in a savepoint."""
        db = self._connection
        try:
            self._begin()
            results = [self._attempt(job) if apart else job.work(db) for job in jobs]
            db.execute("COMMIT")
        except _Locked:
            raise
        except Exception as error:  # noqa: BLE001 - a lost outcome would hang its caller
            # An error of the rollback itself would come back at the next BEGIN.
            with suppress(sqlite3.Error):
                if db.in_transaction:
                    db.execute("ROLLBACK")
            if not apart and len(jobs) > 1 and not isinstance(error, sqlite3.Error):
                # One of them is refused. The others lose nothing: all are done again.
                return self._commit(jobs, apart=True)
            return [self._explain(error) for _ in jobs]
        return results

    def _begin(self) -> None:
        self._refuse_absence()
        try:
            self._connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            if is_sqlite(error, "SQLITE_BUSY"):
                raise _Locked(error) from error
            raise
        (self.version,) = self._connection.execute("PRAGMA data_version").fetchone()

    def _attempt(self, job: Job[Any]) -> Any:
        self._connection.execute("SAVEPOINT job")
        try:
            result = job.work(self._connection)
        except sqlite3.Error:
            raise
        except Exception as error:  # noqa: BLE001 - fails this job and none of its group
            self._connection.execute("ROLLBACK TO job")
            result = self._explain(error)
        self._connection.execute("RELEASE job")
        return result

    def _refuse_absence(self) -> None:
        """Raise JournalUnusable if the file is no longer in its place."""
        if self._path is None or self._file is None:
            return
        try:
            is_there = os.path.samestat(self._path.stat(), self._file)
        except (FileNotFoundError, NotADirectoryError):
            is_there = False
        if not is_there:
            raise JournalUnusable(
                f"the journal {self._place} cannot be used: {self._path} was removed, moved or "
                "replaced while it was open; put it back, then resume the run"
            )

    def _explain(self, error: Exception) -> Exception:
        return unusable(error, self._place) if isinstance(error, sqlite3.Error | OSError) else error
