"""The contents of trees, stored beside the journal: each content once, under its digest.

A tree is kept with all its files in one transaction, so it is there whole or not at all. It
stays as long as a run that kept it.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from loopkit.journal.errors import JournalError
from loopkit.journal.faults import unusable
from loopkit.outside.trees.isolation import drop_all
from loopkit.outside.trees.tree import Entry, Tree, content_at, digest_of, read_tree

DATABASE = "trees.db"
TREES = "trees"
"""The folder of the state folder in which runs have trees of their own to work in."""
_BUSY_S = 60.0
_TABLES = (
    "CREATE TABLE IF NOT EXISTS contents (digest TEXT PRIMARY KEY, content BLOB NOT NULL) STRICT",
    "CREATE TABLE IF NOT EXISTS kept (run TEXT NOT NULL, tree TEXT NOT NULL,"
    " PRIMARY KEY (run, tree)) STRICT",
)


class LostContent(JournalError):
    """A content that a run names is missing."""


class Contents:
    """The contents of the trees of all runs; may be used by several threads and processes."""

    def __init__(self, folder: Path | None = None) -> None:
        """Stored in the state folder `folder`; without one, in memory until this process ends."""
        self.folder = folder
        self._lock = threading.Lock()
        self._db: sqlite3.Connection | None = None

    def keep(self, run: str, folder: Path, origin: Path | None = None) -> Tree:
        """The tree of a folder as it is now, durable on return.

        `origin` is the folder that this one is a copy of. Raises TooLarge, OSError and
        JournalUnusable.
        """
        seen = read_tree(folder, origin)
        with self._transaction() as db:
            entries: dict[str, Entry] = {}
            for path, entry in seen.entries.items():
                # The file may have been removed since.
                with suppress(FileNotFoundError):
                    entries[path] = self._keep_file(db, folder, path, entry)
            return self._keep_tree(db, run, Tree(entries, seen.times))

    def keep_made(self, run: str, tree: Tree, contents: Iterable[bytes]) -> Tree:
        """Store a tree that was made from others, with the contents that these don't have."""
        with self._transaction() as db:
            for content in contents:
                _insert(db, digest_of(content), content)
            return self._keep_tree(db, run, tree)

    def tree(self, digest: str) -> Tree:
        """The tree that was kept under a digest; raises LostContent."""
        try:
            return Tree.of_manifest(self.content(digest))
        except ValueError as error:
            raise _missing_content(digest) from error

    def content(self, digest: str) -> bytes:
        """Raises LostContent."""
        with self._connection() as db:
            row = db.execute("SELECT content FROM contents WHERE digest = ?", (digest,)).fetchone()
        if row is None or digest_of(row[0]) != digest:
            raise _missing_content(digest)
        return bytes(row[0])

    def forget(self, runs: Sequence[str]) -> None:
        """Remove contents that only these runs have kept, and the trees in which they worked."""
        if self.folder is not None:
            for run in runs:
                drop_all(self.folder / TREES / run)
        if not self._exists():
            return
        with self._transaction() as db:
            db.executemany("DELETE FROM kept WHERE run = ?", [(run,) for run in runs])
            trees = [tree for (tree,) in db.execute("SELECT DISTINCT tree FROM kept")]
            db.execute("CREATE TEMP TABLE named (digest TEXT PRIMARY KEY)")
            for digest in trees:
                row = db.execute("SELECT content FROM contents WHERE digest = ?", (digest,))
                found = row.fetchone()
                entries = Tree.of_manifest(found[0]).entries.values() if found else ()
                names = {digest, *(entry.digest for entry in entries)}
                db.executemany("INSERT OR IGNORE INTO named VALUES (?)", [(n,) for n in names])
            db.execute("DELETE FROM contents WHERE digest NOT IN (SELECT digest FROM named)")
            db.execute("DROP TABLE named")

    def runs(self) -> list[str]:
        """The runs that have kept a tree."""
        if not self._exists():
            return []
        with self._connection() as db:
            return [run for (run,) in db.execute("SELECT DISTINCT run FROM kept")]

    def close(self) -> None:
        with self._lock:
            if self._db is not None:
                self._db.close()
                self._db = None

    def _exists(self) -> bool:
        return self._db is not None or bool(self.folder and (self.folder / DATABASE).exists())

    def _keep_file(self, db: sqlite3.Connection, folder: Path, path: str, entry: Entry) -> Entry:
        known = db.execute("SELECT 1 FROM contents WHERE digest = ?", (entry.digest,)).fetchone()
        if known is not None:
            return entry
        # The file may have changed since: its present content is kept, and named in the tree.
        content = content_at(folder, path, entry)
        digest = digest_of(content)
        _insert(db, digest, content)
        return Entry(entry.kind, digest)

    def _keep_tree(self, db: sqlite3.Connection, run: str, tree: Tree) -> Tree:
        _insert(db, tree.digest, tree.manifest)
        db.execute("INSERT OR IGNORE INTO kept VALUES (?, ?)", (run, tree.digest))
        return tree

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._connection() as db:
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
                db.execute("COMMIT")
            except BaseException:
                # After some faults SQLite has rolled back by itself.
                if db.in_transaction:
                    db.execute("ROLLBACK")
                raise

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            try:
                self._db = self._db or _open(self.folder)
                yield self._db
            except sqlite3.Error as error:
                raise unusable(error, str(self.folder / DATABASE if self.folder else "")) from error


def _open(folder: Path | None) -> sqlite3.Connection:
    path = ":memory:"
    if folder is not None:
        path = str(folder / DATABASE)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        (folder / DATABASE).touch(mode=0o600)
    db = sqlite3.connect(path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)
    try:
        for statement in ("PRAGMA journal_mode = WAL", "PRAGMA synchronous = FULL", *_TABLES):
            db.execute(statement)
    except BaseException:
        db.close()
        raise
    return db


def _insert(db: sqlite3.Connection, digest: str, content: bytes) -> None:
    db.execute("INSERT OR IGNORE INTO contents VALUES (?, ?)", (digest, content))


def _missing_content(digest: str) -> LostContent:
    return LostContent(
        f"a content that the run names ({digest[:12]}) is not in {DATABASE} of the state folder; "
        "restore the folder from a copy"
    )
