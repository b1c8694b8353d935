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

from loopkit.journal.errors import LostContent, unusable
from loopkit.journal.files import TREES
from loopkit.outside.trees import Entry, Tree, content_at, digest_of, drop_all, read_tree

DATABASE = "trees.db"
_BUSY_S = 60.0
_SETUP = """
PRAGMA journal_mode = WAL;
PRAGMA synchronous = FULL;
CREATE TABLE IF NOT EXISTS contents (digest TEXT PRIMARY KEY, content BLOB NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS kept (run TEXT NOT NULL, tree TEXT NOT NULL, PRIMARY KEY (run, tree))
    STRICT;
"""


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
        with self._open(writes=True) as db:
            entries: dict[str, Entry] = {}
            for path, entry in seen.entries.items():
                # The file may have been removed since.
                with suppress(FileNotFoundError):
                    if _has(db, entry.digest):
                        entries[path] = entry
                        continue
                    # It may have changed since: its present content is kept, and named in the tree.
                    content = content_at(folder, path, entry)
                    entries[path] = Entry(entry.kind, _insert(db, content))
            return _keep(db, run, Tree(entries, seen.times))

    def keep_made(self, run: str, tree: Tree, contents: Iterable[bytes]) -> Tree:
        """Store a tree that was made from others, with the contents that these don't have."""
        with self._open(writes=True) as db:
            for content in contents:
                _insert(db, content)
            return _keep(db, run, tree)

    def tree(self, digest: str) -> Tree:
        """The tree that was kept under a digest; raises LostContent."""
        try:
            return Tree.of_manifest(self.content(digest))
        except ValueError as error:
            raise _lost(digest) from error

    def content(self, digest: str) -> bytes:
        """Raises LostContent."""
        with self._open() as db:
            found = _content(db, digest)
        if found is None or digest_of(found) != digest:
            raise _lost(digest)
        return found

    def forget(self, runs: Sequence[str]) -> None:
        """Remove contents that only these runs have kept, and the trees in which they worked."""
        if self.folder is not None:
            for run in runs:
                drop_all(self.folder / TREES / run)
        if not self.exist():
            return
        with self._open(writes=True) as db:
            db.executemany("DELETE FROM kept WHERE run = ?", [(run,) for run in runs])
            trees = {tree for (tree,) in db.execute("SELECT DISTINCT tree FROM kept")}
            manifests = [found for tree in trees if (found := _content(db, tree)) is not None]
            entries = (e for one in manifests for e in Tree.of_manifest(one).entries.values())
            named = trees | {entry.digest for entry in entries}
            every = {digest for (digest,) in db.execute("SELECT digest FROM contents")}
            gone = [(digest,) for digest in every - named]
            db.executemany("DELETE FROM contents WHERE digest = ?", gone)

    def runs(self) -> list[str]:
        """The runs that have kept a tree."""
        if not self.exist():
            return []
        with self._open() as db:
            return [run for (run,) in db.execute("SELECT DISTINCT run FROM kept")]

    def close(self) -> None:
        with self._lock:
            if self._db is not None:
                self._db.close()
                self._db = None

    def exist(self) -> bool:
        """Whether any run may have kept a tree."""
        return self._db is not None or bool(self.folder and (self.folder / DATABASE).exists())

    @contextmanager
    def _open(self, *, writes: bool = False) -> Iterator[sqlite3.Connection]:
        """The connection; with `writes` in a transaction, which an exception undoes."""
        with self._lock:
            try:
                self._db = self._db or self._connect()
                with self._db:
                    if writes:
                        self._db.execute("BEGIN IMMEDIATE")
                    yield self._db
            except sqlite3.Error as error:
                raise unusable(error, str(self.folder / DATABASE if self.folder else "")) from error

    def _connect(self) -> sqlite3.Connection:
        path = ":memory:"
        if self.folder is not None:
            path = str(self.folder / DATABASE)
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            (self.folder / DATABASE).touch(mode=0o600)
        db = sqlite3.connect(path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)
        try:
            for statement in _SETUP.split(";"):
                db.execute(statement)
        except BaseException:
            db.close()
            raise
        return db


def _keep(db: sqlite3.Connection, run: str, tree: Tree) -> Tree:
    _insert(db, tree.manifest)
    db.execute("INSERT OR IGNORE INTO kept VALUES (?, ?)", (run, tree.digest))
    return tree


def _insert(db: sqlite3.Connection, content: bytes) -> str:
    digest = digest_of(content)
    db.execute("INSERT OR IGNORE INTO contents VALUES (?, ?)", (digest, content))
    return digest


def _has(db: sqlite3.Connection, digest: str) -> bool:
    found = db.execute("SELECT 1 FROM contents WHERE digest = ?", (digest,)).fetchone()
    return found is not None


def _content(db: sqlite3.Connection, digest: str) -> bytes | None:
    row = db.execute("SELECT content FROM contents WHERE digest = ?", (digest,)).fetchone()
    return None if row is None else bytes(row[0])


def _lost(digest: str) -> LostContent:
    return LostContent(
        f"a content that the run names ({digest[:12]}) is not in {DATABASE} of the state folder; "
        "restore the folder from a copy"
    )
