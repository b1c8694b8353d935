"""The state folder: where it is, which processes live in it, its database, and who writes to that.

The writer is the only user of a connection: jobs of one event-loop turn share a commit, which costs
one wait for the disk, however many runs share it. If one of them is refused, all are done again,
each in a savepoint of its own, so a conflict of one run undoes nothing of another's. If no other
run could join, a job is done at once and not in the next turn. While another process writes, the
jobs wait, and the event loop does not.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import re
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeGuard, TypeVar

from loopkit.journal.errors import JournalClosed, JournalUnusable, is_sqlite, unfit, unusable
from loopkit.project import project

STATE_FOLDER = ".loopkit"
DATABASE = "journal.db"
APPLICATION_ID = 0x6C6F6F70
"""`loop`, in the file's header: tells a journal from any other SQLite database."""
_BUSY_S = 10.0
_KEPT_WAL_BYTES = 64 * 2**20
_LOCK = re.compile(r"\d+-[0-9a-f]{16}\.lock")


def parse_queries(path: Path) -> dict[str, str]:
    """The statements of a file, by the name in the comment line above each."""
    text = path.read_text(encoding="utf-8")
    _, *parts = re.split(r"^-- name: (\w+)\n", text, flags=re.MULTILINE)
    return dict(zip(parts[::2], map(str.strip, parts[1::2]), strict=True))


SQL = parse_queries(Path(__file__).with_name("queries.sql"))
VERSION = 4
"""Of the tables."""


def is_url(place: object) -> TypeGuard[str]:
    """Whether a place is the URL of a journal in PostgreSQL, and not a folder."""
    return isinstance(place, str) and place.startswith(("postgresql://", "postgres://"))


def state_folder(start: Path | None = None) -> Path:
    """The one that the environment or `loopkit.yaml` names, or else `.loopkit`.

    That is the nearest one upwards, else beside `.git`, else here. Raises ProblemsFound.
    """
    if named := os.environ.get("LOOPKIT_STATE"):
        return Path(named)
    if (said := project(start).state) is not None:
        return said
    here = (start or Path.cwd()).resolve()
    for marker in (STATE_FOLDER, ".git"):
        for folder in (here, *here.parents):
            if (folder / marker).is_dir():
                return folder / STATE_FOLDER
    return here / STATE_FOLDER


def is_unused(folder: Path) -> bool:
    """Whether there are no runs yet, so that a reader need not create the folder.

    Once the folder exists, the runs of all projects below it are stored there.
    """
    try:
        return folder / DATABASE not in folder.iterdir()
    except FileNotFoundError:
        return not folder.is_symlink()
    except OSError:
        # Opening the folder will report the reason.
        return False


def open_folder(folder: Path, place: str) -> tuple[sqlite3.Connection, ProcessLock]:
    """Make what is missing in a state folder, private and ignored by git, and open it.

    Others that open it meanwhile wait: a lock file that is made but not yet locked looks dead.
    `place` is named in messages. Raises OSError, sqlite3.Error and JournalUnusable.
    """
    with made(folder):
        os.close(os.open(folder / DATABASE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        connection = connect(folder / DATABASE, place)
        try:
            return connection, ProcessLock.take(folder)
        except OSError:
            connection.close()
            raise


@contextmanager
def made(folder: Path) -> Iterator[None]:
    """While a state folder is locked, which is there then, private and ignored by git."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    with locked(folder):
        ignore = folder / ".gitignore"
        draft = folder / ".gitignore.draft"
        if not ignore.exists():
            # Renamed: a crash in between leaves no empty file that ignores nothing.
            draft.unlink(missing_ok=True)
            draft.write_text("*\n", encoding="utf-8")
            draft.replace(ignore)
        yield


@contextmanager
def locked(folder: Path, kind: int = fcntl.LOCK_EX, flags: int = 0) -> Iterator[None]:
    """While others that lock the folder wait; raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | flags)
    try:
        fcntl.flock(descriptor, kind)
        yield
    finally:
        os.close(descriptor)


@dataclass(eq=False)
class ProcessLock:
    """This process's sign of life: a locked file that the kernel unlocks when the process ends.

    One for a process and not for a run: a thousand runs need one descriptor, and the owner of a
    run changes in the same transaction as its records.
    """

    name: str
    _folder: Path | None = None
    """Without one no other process sees it."""
    _descriptor: int | None = None
    """Without one it only sees others."""

    @classmethod
    def take(cls, state: Path) -> ProcessLock:
        """Remove the files of dead processes and lock a new one; raises OSError."""
        folder = state / "locks"
        folder.mkdir(mode=0o700, exist_ok=True)
        for path in folder.glob("*.lock"):
            if not _is_locked(path):
                path.unlink(missing_ok=True)
        name = f"{os.getpid()}-{os.urandom(8).hex()}.lock"
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        descriptor = os.open(folder / name, flags, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            raise
        return cls(name, folder, descriptor)

    def is_alive(self, name: str) -> bool:
        """Whether the process whose lock has this name is alive; raises OSError."""
        if self._folder is None:
            return name == self.name
        if name == self.name:
            # Also if the file was removed.
            return self._descriptor is not None
        # Names come from a database; one that no process wrote must not lead to another file.
        return _LOCK.fullmatch(name) is not None and _is_locked(self._folder / name)

    def is_alone(self) -> bool:
        if self._folder is None:
            return False
        return not any(p.name != self.name and _is_locked(p) for p in self._folder.glob("*.lock"))

    def release(self) -> None:
        """Unlock and remove the file; every run that this process owned is free at once."""
        if self._folder is None or self._descriptor is None:
            return
        os.close(self._descriptor)
        self._descriptor = None
        # A file that stays is removed by the next process that opens the folder.
        with suppress(OSError):
            (self._folder / self.name).unlink()


def _is_locked(path: Path) -> bool:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        # Shared, so that two processes that check at once do not see each other as the owner.
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def connect(path: Path | str, place: str) -> sqlite3.Connection:
    """A connection that may move to another thread, with the tables of this version.

    Raises sqlite3.Error, and JournalUnusable for a database of another program or version, which it
    leaves untouched.
    """
    with _checked(path, place) as (db, version):
        if not version:
            # Only a file without tables can begin with it.
            db.execute("PRAGMA auto_vacuum = INCREMENTAL")
        for pragma in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"):
            db.execute(f"PRAGMA {pragma}")
        db.execute(f"PRAGMA journal_size_limit = {_KEPT_WAL_BYTES}")
        if not version:
            db.execute("BEGIN IMMEDIATE")
            for statement in SQL["tables"].split(";"):
                db.execute(statement)
            db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            db.execute(f"PRAGMA user_version = {VERSION}")
            db.execute("COMMIT")
        return db


def connect_to_read(path: Path, place: str) -> sqlite3.Connection | None:
    """A connection that never writes; None if nobody has made tables in the file yet.

    Readers know of writers by files beside the database. If nobody can create these, there are no
    writers, and the database is complete, unless a writer was killed and left its log. Raises
    JournalUnusable.
    """
    log = path.with_name(f"{path.name}-wal")
    for way in ("mode=ro", "immutable=1"):
        with suppress(sqlite3.Error, OSError):
            if way == "mode=ro" or not (log.exists() and log.stat().st_size > 0):
                with _checked(f"{path.as_uri()}?{way}", place) as (db, version):
                    if not version:
                        db.close()
                        return None
                    return db
    raise JournalUnusable(
        f"the journal {place} cannot be read; check its files and their permissions"
    )


@contextmanager
def _checked(path: Path | str, place: str) -> Iterator[tuple[sqlite3.Connection, int]]:
    is_uri = isinstance(path, str) and path.startswith("file:")
    db = sqlite3.connect(
        path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False, uri=is_uri
    )
    # Text that is not UTF-8 is damaged, and must not prevent reading what is stored beside it.
    db.text_factory = partial(str, encoding="utf-8", errors="backslashreplace")
    try:
        yield db, _version(db, place)
    except BaseException:
        db.close()
        raise


def _version(db: sqlite3.Connection, place: str) -> int:
    """The version of a journal's tables; raises JournalUnusable for those of others."""
    version: int
    (version,) = db.execute("PRAGMA user_version").fetchone()
    (program,) = db.execute("PRAGMA application_id").fetchone()
    (tables,) = db.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    if program != APPLICATION_ID and tables:
        raise JournalUnusable(
            f"the journal {place} is the database of another program; choose another folder"
        )
    if version not in (0, VERSION):
        raise JournalUnusable(
            f"the journal {place} was written by another loopkit (tables of version {version}, "
            f"this one knows {VERSION}); use that one, or name another state folder by "
            "`LOOPKIT_STATE`"
        )
    return version


class View:
    """A connection that only reads the file that is in a place now, or there is none yet."""

    def __init__(self, path: Path, place: str) -> None:
        """Raises JournalUnusable if there is a journal that cannot be read."""
        self.path = path
        file = self._stat()
        found = connect_to_read(path, place) if file else None
        self.exists = found is not None
        self.connection = connect(":memory:", place) if found is None else found
        # Without files that show writers it is read as it was when it was opened.
        self._is_still = self.exists and not self._has_writers()
        self._file = self._stat() if self._is_still else file[:2] if self.exists else ()

    def is_current(self) -> bool:
        if self._is_still:
            return not self._has_writers() and self._stat() == self._file
        return self._stat()[:2] == self._file

    def is_of_same_file(self, other: View) -> bool:
        """Whether both show one file, which may have been written to in between."""
        return self.exists and other.exists and self._file[:2] == other._file[:2]

    def _stat(self) -> tuple[int, ...]:
        try:
            found = self.path.stat()
        except OSError:
            return ()
        # While it is open, no other file gets its number.
        return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size

    def _has_writers(self) -> bool:
        return self.path.with_name(f"{DATABASE}-shm").exists()


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
            raise JournalClosed(self._place)

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
        if isinstance(error, UnicodeEncodeError):
            return unfit(error)
        return unusable(error, self._place) if isinstance(error, sqlite3.Error | OSError) else error
