"""Trees of all hosts in the database, as objects of git, and those of this host in a repository.

A run that keeps more than the database takes goes on where its trees are: it needs the label of
that host from then on.
"""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import psycopg

from loopkit.journal.contents import Contents, Merge, host_label
from loopkit.journal.errors import unusable
from loopkit.journal.files import made, state_folder
from loopkit.journal.postgres.database import Database, cut
from loopkit.outside.trees import Folder, Tree
from loopkit.text.run_ids import root_of

T = TypeVar("T")
MOST_BYTES = 64_000_000
"""What a run and its children may keep in the database, compressed."""
_ATTEMPT_S = 60.0
_PAUSE_S = 1.0
_LONGEST_S = 60.0
_AT_ONCE = 200


class SharedContents(Contents):
    def __init__(
        self, database: Database, most_bytes: int = MOST_BYTES, folder: Path | None = None
    ) -> None:
        self._sql = database
        self._most_bytes = most_bytes
        name = hashlib.sha256(database.place.encode()).hexdigest()[:12]
        super().__init__(folder or state_folder() / f"postgres-{name}")
        self.state: Path = Path(os.path.realpath(state_folder()))
        self._db: psycopg.Connection[Any] | None = None
        self._lock = threading.Lock()

    def keep(
        self, run: str, folder: Folder, known: Tree | None = None, *, is_trusted: bool = False
    ) -> Tree:
        with made(self.state):
            pass
        tree = super().keep(run, folder, known, is_trusted=is_trusted)
        self.share(run, tree.digest)
        return tree

    def merge(self, run: str, base: Tree, ours: Tree, theirs: Tree) -> Merge:
        merge = super().merge(run, base, ours, theirs)
        if not merge.conflicts:
            self.share(run, merge.tree.digest)
        return merge

    def close(self) -> None:
        super().close()
        with self._lock:
            if self._db is not None:
                self._db.close()
            self._db = None

    def share(self, run: str, digest: str) -> bool:
        """Let others have a tree; where it is too much, let no other host continue the run."""
        ids = self.objects(digest)
        return self._in_database(partial(self._store, run, digest, ids))

    def _store(self, run: str, digest: str, ids: list[str], db: psycopg.Connection[Any]) -> bool:
        if (kept := self._rows(db, "kept_tree", digest=digest, run=run)) and kept[0][0] == run:
            return True
        names = [bytes.fromhex(one) for one in ids]
        known = {bytes(name).hex() for (name,) in db.execute(self._text("touch_objects"), [names])}
        new = [one for one in ids if one not in known]
        packed = [*zip(new, self.packed(new), strict=True)]
        size = sum(len(data) for _, data in packed)
        root = root_of(run)
        if self._rows(db, "kept_bytes", run=root)[0][0] + size > self._most_bytes:
            db.execute(self._text("bind"), {"root": root, "label": host_label()})
            return False
        for name, data in packed:
            db.execute(self._text("store_object"), (bytes.fromhex(name), data))
        db.execute(self._text("store_tree"), (digest, run, names, size))
        return True

    def _fetch(self, *digests: str) -> None:
        for digest in digests:
            if not self.has(digest):
                self._in_database(partial(self._take, digest))

    def _take(self, digest: str, db: psycopg.Connection[Any]) -> None:
        found = self._rows(db, "kept_tree", digest=digest, run="")
        if not found:
            # Then the repository here says that it is lost.
            return
        [(run, names)] = found
        with made(self.state):
            pass
        ids = [bytes(name).hex() for name in names]
        self.add(run, digest, ids[0], self._objects(db, self.lacking(ids)))

    def _objects(self, db: psycopg.Connection[Any], ids: list[str]) -> Iterator[tuple[str, bytes]]:
        for start in range(0, len(ids), _AT_ONCE):
            names = [bytes.fromhex(one) for one in ids[start : start + _AT_ONCE]]
            for name, data in db.execute(self._text("objects"), [names]):
                yield bytes(name).hex(), bytes(data)

    def _text(self, name: str) -> bytes:
        return self._sql[name].encode()

    def _rows(self, db: psycopg.Connection[Any], name: str, **values: Any) -> list[tuple[Any, ...]]:
        return db.execute(self._text(name), values).fetchall()

    def _in_database(self, work: Callable[[psycopg.Connection[Any]], T]) -> T:
        """What `work` gives in a transaction; it is done again where a connection has failed."""
        until = time.monotonic() + _LONGEST_S
        with self._lock:
            while True:
                try:
                    self._db = self._db or self._sql.connect_pooled()
                    deadline = threading.Timer(_ATTEMPT_S, cut, (self._db,))
                    deadline.daemon = True
                    deadline.start()
                    try:
                        with self._db.transaction():
                            return work(self._db)
                    finally:
                        deadline.cancel()
                except psycopg.Error as error:
                    is_away = self._db is None or self._db.closed
                    with suppress(psycopg.Error):
                        if self._db is not None:
                            self._db.close()
                    self._db = None
                    if not is_away or time.monotonic() > until:
                        raise unusable(error, self._sql.place) from error
                    time.sleep(_PAUSE_S)
