"""Journals in which one record was changed at a random place, and what every command says then."""

from __future__ import annotations

import contextlib
import io
import json
import random
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from loopkit.cli import invoke

ODD: Sequence[Any] = (
    None, True, 0, 1, -1, 7, 10**30, 0.5, 1e308, float("inf"), "", "x", "ask[0]", "\0", "é" * 500,
    [], [None], [[]], ["x"], {}, {"x": 1}, {"agent_calls": -5},
)  # fmt: skip


def places(value: object, way: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The ways to every value inside a JSON value."""
    children: Iterator[tuple[Any, Any]] = iter(())
    if isinstance(value, dict):
        children = iter(value.items())
    elif isinstance(value, list):
        children = iter(enumerate(value))
    for key, child in children:
        yield (*way, key)
        yield from places(child, (*way, key))


def changed(data: str, chance: random.Random) -> str:
    """A record's text with one value replaced, taken out or put in."""
    value = json.loads(data)
    way = chance.choice([*places(value), ("added",)])
    holder = value
    for key in way[:-1]:
        holder = holder[key]
    if chance.random() < 0.25 and way[-1] != "added":
        del holder[way[-1]]
    else:
        holder[way[-1]] = chance.choice(ODD)
    return json.dumps(value)


def bytes_changed(data: str, chance: random.Random) -> str:
    at = chance.randrange(len(data) + 1)
    return (
        data[:at] + chance.choice(["", '"', "}", "\0", "9", "ÿ"]) + data[at + chance.randrange(3) :]
    )


Row = tuple[int, int, float, str, str]


def damaged(rows: Sequence[Row], chance: random.Random) -> list[Row]:
    """The records of a run after something happened to them."""
    rows = list(rows)
    at = chance.randrange(len(rows))
    seq, epoch, time, kind, data = rows[at]
    match chance.randrange(8):
        case 0:
            del rows[at]
        case 1:
            rows.insert(at, rows[chance.randrange(len(rows))])
        case 2:
            other = chance.randrange(len(rows))
            rows[at], rows[other] = rows[other], rows[at]
        case 3:
            rows[at] = (seq, epoch, time, chance.choice(rows)[3], data)
        case 4:
            rows[at] = (seq, epoch, time, kind, bytes_changed(data, chance))
        case _:
            rows[at] = (seq, epoch, time, kind, changed(data, chance))
    return [(n, epoch, *rest) for n, (_, epoch, *rest) in enumerate(rows, 1)]  # type: ignore[misc]


COMMANDS: Sequence[Sequence[str]] = (
    ("runs", "ls"),
    ("runs", "show", "RUN"),
    ("runs", "logs", "RUN"),
    ("stats", "RUN"),
    ("stats", "--format", "csv"),
    ("runs", "logs", "--jsonl", "RUN"),
    ("diagram", "--run", "RUN"),
    ("runs", "record", "RUN", "recorded.scenario.yaml"),
    ("resume", "RUN"),
    ("answer", "RUN", "approve"),
    ("cancel", "RUN"),
)


def said(argv: Sequence[str]) -> tuple[int, str]:
    """The exit code of a command line, and what it says to stderr."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = invoke(list(argv))
    return code, err.getvalue()


class Harm:
    """A state folder with one run, which is harmed again and again."""

    def __init__(self, journal: Path) -> None:
        self._journal = journal
        with closing(sqlite3.connect(journal)) as db:
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            self.run = str(db.execute("SELECT run FROM runs").fetchone()[0])
            kept = "SELECT seq, epoch, at, type, data FROM records ORDER BY seq"
            self._rows: list[Row] = db.execute(kept).fetchall()
        self._whole = journal.read_bytes()

    def commands(self, seed: int) -> Iterator[tuple[Sequence[str], int, str]]:
        """What each command says of the run after the change that `seed` stands for."""
        rows = damaged(self._rows, random.Random(seed))
        for argv in COMMANDS:
            self._write(rows)
            Path("recorded.scenario.yaml").unlink(missing_ok=True)
            yield argv, *said([self.run if word == "RUN" else word for word in argv])

    def _write(self, rows: Sequence[Row]) -> None:
        for path in self._journal.parent.glob("journal.db-*"):
            path.unlink()
        self._journal.write_bytes(self._whole)
        with closing(sqlite3.connect(self._journal, isolation_level=None)) as db:
            db.execute("DELETE FROM records")
            db.executemany("INSERT INTO records VALUES (1, ?, ?, ?, ?, ?)", rows)
