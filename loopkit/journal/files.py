"""The state folder: where it is, which processes live in it, and the connection to its database."""

from __future__ import annotations

import fcntl
import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from loopkit.journal.errors import JournalUnusable

STATE_FOLDER = ".loopkit"
DATABASE = "journal.db"
TREES = "trees"
"""The folder of the state folder in which runs have trees of their own to work in."""
APPLICATION_ID = 0x6C6F6F70
"""`loop`, in the file's header: tells a journal from any other SQLite database."""
_BUSY_S = 10.0
_KEPT_WAL_BYTES = 64 * 2**20
_LOCK = re.compile(r"\d+-[0-9a-f]{16}\.lock")


_, *_PARTS = re.split(
    r"^-- name: (\w+)\n",
    Path(__file__).with_name("queries.sql").read_text(encoding="utf-8"),
    flags=re.MULTILINE,
)
SQL = dict(zip(_PARTS[::2], map(str.strip, _PARTS[1::2]), strict=True))
"""The statements of `queries.sql`, by the name in the comment line above each."""
MIGRATIONS = [SQL["migration_1"].split(";"), SQL["migration_2"].split(";")]
"""The statements that lead from each schema version to the next, from an empty file on."""
STAND_INS = {2: SQL["stand_in_2"]}
"""By schema version: what replaces its tables if an earlier one may only be read."""


def state_folder(start: Path | None = None) -> Path:
    """`.loopkit` of the project: the nearest one upwards, else beside `.git`, else here."""
    if named := os.environ.get("LOOPKIT_STATE"):
        return Path(named)
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
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    with locked(folder):
        ignore, draft = folder / ".gitignore", folder / ".gitignore.draft"
        if not ignore.exists():
            # Renamed: a crash in between leaves no empty file that ignores nothing.
            draft.unlink(missing_ok=True)
            draft.write_text("*\n", encoding="utf-8")
            draft.replace(ignore)
        os.close(os.open(folder / DATABASE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        connection = connect(folder / DATABASE, place)
        try:
            return connection, ProcessLock.take(folder)
        except OSError:
            connection.close()
            raise


@contextmanager
def locked(folder: Path, kind: int = fcntl.LOCK_EX, flags: int = 0) -> Iterator[None]:
    """While others that lock the folder wait; raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | flags)
    try:
        fcntl.flock(descriptor, kind)
        yield
    finally:
        os.close(descriptor)


class ProcessLock:
    """This process's sign of life: a locked file that the kernel unlocks when the process ends.

    One for a process and not for a run: a thousand runs need one descriptor, and the owner of a
    run changes in the same transaction as its records.
    """

    def __init__(
        self, name: str, folder: Path | None = None, descriptor: int | None = None
    ) -> None:
        """Without a folder no other process sees it; without a descriptor it only sees others."""
        self.name = name
        self._folder = folder
        self._descriptor = descriptor

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

    Raises sqlite3.Error, and JournalUnusable for a database of another program or of a newer
    version, which it leaves untouched.
    """
    with _checked(path, place) as (db, version):
        if not version:
            # Only a file without tables can begin with it.
            db.execute("PRAGMA auto_vacuum = INCREMENTAL")
        for pragma in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"):
            db.execute(f"PRAGMA {pragma}")
        db.execute(f"PRAGMA journal_size_limit = {_KEPT_WAL_BYTES}")
        if version < len(MIGRATIONS):
            db.execute("BEGIN IMMEDIATE")
            for statement in (one for step in MIGRATIONS[version:] for one in step):
                db.execute(statement)
            db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            db.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")
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
                    # Temporary tables are not stored in the journal's files.
                    for later in range(version + 1, len(MIGRATIONS) + 1):
                        db.execute(STAND_INS[later])
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
    if version > len(MIGRATIONS):
        raise JournalUnusable(
            f"the journal {place} was written by a newer loopkit (tables of version {version}, "
            f"this one knows {len(MIGRATIONS)}); upgrade loopkit"
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
