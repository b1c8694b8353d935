"""A stored run to which something happened: bytes, pages or records are others now."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from random import Random

from tests.damaged_records import damaged


@dataclass(frozen=True)
class Harm:
    """What happens, the same each time."""

    kind: str
    seed: int

    def happens(self, folder: Path) -> None:
        """To the journal below this folder, if there is one."""
        for journal in folder.rglob("journal.db"):
            KINDS[self.kind](journal, Random(self.seed))


def _records(journal: Path, random: Random) -> None:
    with closing(sqlite3.connect(journal, isolation_level=None)) as db:
        rows = db.execute("SELECT seq, epoch, at, type, data FROM records ORDER BY seq").fetchall()
        if rows:
            db.execute("DELETE FROM records")
            changed = damaged(rows, random)
            db.executemany("INSERT INTO records VALUES (1, ?, ?, ?, ?, ?)", changed)


def _others(journal: Path, random: Random) -> None:
    """What belongs to a run besides its records."""
    changes = (
        "DELETE FROM definitions",
        "UPDATE definitions SET text = substr(text, 1, length(text) / 2)",
        "UPDATE definitions SET text = replace(text, 'states', 'stages')",
        "UPDATE runs SET machine = '', definition = 'x'",
        "UPDATE runs SET run = run || char(10) || 'x'",
        "UPDATE runs SET owner = 'nobody', created_at = 1e300",
        "DELETE FROM runs",
        "DROP TABLE records",
        "DROP TABLE inbox",
        "UPDATE records SET at = -1e300",
        "UPDATE records SET epoch = 99",
        "UPDATE records SET seq = seq + 500",
        "DELETE FROM records WHERE seq = 3",
        "DELETE FROM records WHERE seq > 4",
        "UPDATE records SET type = 'unheard_of' WHERE seq = 2",
        "INSERT INTO inbox VALUES (1, 1, 'm', 'answer', '{}', 0, NULL)",
        "INSERT INTO inbox VALUES (1, 1, 'm', 'cancel', char(0), 0, NULL)",
        "INSERT INTO inbox VALUES (1, 1, 'm', 'else', 'x', 0, NULL)",
        "PRAGMA user_version = 99",
        "PRAGMA application_id = 7",
    )
    with closing(sqlite3.connect(journal, isolation_level=None)) as db:
        db.execute(random.choice(changes))


def _bytes(journal: Path, random: Random) -> None:
    data = _whole(journal)
    for _ in range(random.choice((1, 10, 500))):
        data[random.randrange(len(data))] = random.randrange(256)
    journal.write_bytes(data)


def _cut(journal: Path, random: Random) -> None:
    data = _whole(journal)
    kept = random.choice((0, 1, 100, 4_096, random.randrange(len(data))))
    journal.write_bytes(data[:kept] + bytes(random.choice((0, len(data) - kept))))


def _log(journal: Path, random: Random) -> None:
    """A log that was being written to."""
    noise = bytes(random.choices(range(256), k=random.choice((10, 5_000))))
    journal.with_name("journal.db-wal").write_bytes(noise)


def _whole(journal: Path) -> bytearray:
    with closing(sqlite3.connect(journal, isolation_level=None)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return bytearray(journal.read_bytes())


KINDS: Mapping[str, Callable[[Path, Random], None]] = {
    "records": _records,
    "others": _others,
    "bytes": _bytes,
    "cut": _cut,
    "log": _log,
}
