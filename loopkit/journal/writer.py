"""The writer, the only user of the connection: jobs of one event-loop turn share a commit.

A commit costs one wait for the disk, however many runs share it. If one of them is refused, all are
done again, each in a savepoint of its own, so a conflict of one run undoes nothing of another's. If
no other run could join, a job is done at once and not in the next turn. While another process
writes, the jobs wait, and the event loop does not. If the disk is full, records of what was paid
for take the room that was reserved for them, and nothing more is paid for.
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

from loopkit.journal.errors import JournalError, JournalUnusable
from loopkit.journal.faults import is_busy, is_full, unusable
from loopkit.journal.folder import DATABASE
from loopkit.journal.presence import Presence

T = TypeVar("T")
_LONGEST_WAIT_S = 10.0
"""How long another process may keep the file locked; its own commits take milliseconds."""
_LOOK_AGAIN_S = 0.005
_LONGEST_TURN_S = 0.01
"""How long one run may go on before the event loop gets a turn, for timers and signals."""


class Job(asyncio.Future[T]):
    """A request and its result.

    It can't be cancelled: a waiting caller is cancelled when the result is known.
    """

    __slots__ = ("spends", "work", "writes")

    def __init__(
        self, work: Callable[[sqlite3.Connection], T], *, writes: bool, spends: bool
    ) -> None:
        super().__init__()
        self.work = work
        self.writes = writes
        self.spends = spends

    def cancel(self, msg: Any | None = None) -> bool:
        return False


class Writer:
    """Runs jobs in the order they came; reads see every write that was acknowledged before.

    It takes over `connection` and closes it. `folder` is the state folder, whose `presence` has
    room for the replies to calls. With a `fault`, every job that writes is refused because of it.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        folder: Path,
        presence: Presence,
        fault: JournalUnusable | None = None,
    ) -> None:
        self._connection = connection
        self._place = str(folder)
        self._presence = presence
        self._fault = fault
        self._jobs: list[Job[Any]] = []
        self._locked_since: float | None = None
        self._turn_began = 0.0
        self.version = 0
        """The version of the file in this transaction; another connection's write changes it."""
        self.claims = 0
        """How many runs have a claim now."""
        self.closed = False
        self._path = folder.absolute() / DATABASE
        self._file = self._path.stat()
        # Jobs wait for another process's commit in the event loop and not in SQLite.
        connection.execute("PRAGMA busy_timeout = 0")

    def read(self, work: Callable[[sqlite3.Connection], T]) -> Job[T]:
        """The job of `work`, which writes nothing."""
        return self._ask(work, writes=False)

    def write(self, work: Callable[[sqlite3.Connection], T], *, spends: bool = False) -> Job[T]:
        """The job of `work`, which is done once its changes are durable.

        Raises `JournalUnusable` if the journal can only be read, or if the job `spends` and there
        is no room for the reply.
        """
        if self._fault is not None:
            raise JournalUnusable(str(self._fault)) from self._fault
        if spends:
            try:
                self._presence.hold_room()
            except OSError as error:
                raise unusable(error, self._place) from error
        return self._ask(work, writes=True, spends=spends)

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

    def _ask(
        self, work: Callable[[sqlite3.Connection], T], *, writes: bool, spends: bool = False
    ) -> Job[T]:
        if self.closed:
            raise JournalError(f"the journal {self._place} is closed; open it again")
        job = Job(work, writes=writes, spends=spends)
        loop, waiting = job.get_loop(), self._jobs[-1:]
        self._jobs.append(job)
        # A loop that was closed too early serves no jobs; those that it left are done as well.
        if waiting and waiting[0].get_loop() is loop:
            return job
        if self.claims <= 1 and time.monotonic() - self._turn_began < _LONGEST_TURN_S:
            self._serve()
        else:
            loop.call_soon(self._take_turn)
        return job

    def _take_turn(self) -> None:
        self._turn_began = time.monotonic()
        self._serve()

    def _serve(self) -> None:
        """Do all jobs; those that can't be done now wait."""
        jobs, self._jobs = self._jobs, []
        waiting: list[Job[Any]] = []
        reads = [job for job in jobs if not job.writes]
        writes = [job for job in jobs if job.writes] if reads else jobs
        for do, some in ((self._answer, reads), (self._commit, writes)):
            try:
                if some:
                    _set_results(some, do(some))
            except _Locked as error:
                locked, waiting = error, [*waiting, *some]
        if not waiting:
            self._locked_since = None
        else:
            self._wait(waiting, locked)

    def _wait(self, jobs: list[Job[Any]], locked: _Locked) -> None:
        now = time.monotonic()
        self._locked_since = self._locked_since or now
        if now - self._locked_since < _LONGEST_WAIT_S:
            self._jobs = jobs
            jobs[-1].get_loop().call_later(_LOOK_AGAIN_S, self._serve)
        else:
            self._locked_since = None
            _set_results(jobs, [self._explain(locked.error) for _ in jobs])

    def _answer(self, jobs: Sequence[Job[Any]]) -> list[Any]:
        """The result of each job, or its exception."""
        return [self._read(job) for job in jobs]

    def _read(self, job: Job[Any]) -> Any:
        try:
            return job.work(self._connection)
        except Exception as error:
            if isinstance(error, sqlite3.OperationalError) and is_busy(error):
                raise _Locked(error) from error
            return self._explain(error)

    def _commit(self, jobs: Sequence[Job[Any]], *, apart: bool = False) -> list[Any]:
        """The results of jobs done in one transaction, with `apart` each in a savepoint."""
        connection = self._connection
        try:
            self._begin()
            done = [self._attempt(job) if apart else job.work(connection) for job in jobs]
            connection.execute("COMMIT")
        except _Locked:
            raise
        except Exception as error:  # noqa: BLE001 - a lost outcome would hang its caller
            self._roll_back()
            if is_full(error) and self._presence.give_room():
                kept = [job for job in jobs if not job.spends]
                of_kept = iter(self._commit(kept, apart=apart) if kept else ())
                return [self._explain(error) if job.spends else next(of_kept) for job in jobs]
            if not apart and len(jobs) > 1 and not isinstance(error, sqlite3.Error):
                # One of them is refused. The others lose nothing: all are done again.
                return self._commit(jobs, apart=True)
            return [self._explain(error) for _ in jobs]
        return done

    def _begin(self) -> None:
        self._refuse_absence()
        try:
            self._connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            if is_busy(error):
                raise _Locked(error) from error
            raise
        (self.version,) = self._connection.execute("PRAGMA data_version").fetchone()

    def _refuse_absence(self) -> None:
        """Raise `JournalUnusable` if the file is no longer in its place."""
        try:
            is_there = os.path.samestat(self._path.stat(), self._file)
        except (FileNotFoundError, NotADirectoryError):
            is_there = False
        if not is_there:
            raise JournalUnusable(
                f"the journal {self._place} cannot be used: {self._path} was removed, moved or "
                "replaced while it was open; put it back, then resume the run"
            )

    def _attempt(self, job: Job[Any]) -> Any:
        self._connection.execute("SAVEPOINT job")
        try:
            done = job.work(self._connection)
        except sqlite3.Error:
            raise
        except Exception as error:  # noqa: BLE001 - fails this job and none of its group
            self._connection.execute("ROLLBACK TO job")
            done = self._explain(error)
        self._connection.execute("RELEASE job")
        return done

    def _roll_back(self) -> None:
        # The group's callers get the error that led here; one of the rollback itself would
        # come back at the next group's BEGIN, which is rolled back again.
        with suppress(sqlite3.Error):
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")

    def _explain(self, error: Exception) -> Exception:
        return unusable(error, self._place) if isinstance(error, sqlite3.Error | OSError) else error


class _Locked(Exception):
    """Another process is writing now."""

    def __init__(self, error: sqlite3.Error) -> None:
        super().__init__(str(error))
        self.error = error


def _set_results(jobs: Sequence[Job[Any]], done: Sequence[Any]) -> None:
    for job, result in zip(jobs, done, strict=True):
        try:
            if isinstance(result, Exception):
                job.set_exception(result)
            else:
                job.set_result(result)
        except RuntimeError:
            # The loop of this job was closed too early.
            continue
