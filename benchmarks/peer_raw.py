"""The floor: a plain loop, and for `durable` one INSERT and one commit a step."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from functools import partial

from commits import count_commits
from loop import Job, produce, require_final, validate

Keep = Callable[[int, int, dict[str, object]], object]


def one(run: int, keep: Keep) -> str:
    note = feedback = ""
    for revision in range(1, 6):
        note = produce(feedback)
        keep(run, 2 * revision - 1, {"note": note, "feedback": feedback})
        feedback = validate(note, revision)
        keep(run, 2 * revision, {"note": note, "feedback": feedback})
        if not feedback:
            break
    return note


def insert(db: sqlite3.Connection, run: int, seq: int, state: dict[str, object]) -> None:
    db.execute("INSERT INTO steps VALUES (?, ?, ?)", (run, seq, json.dumps(state)))


def forget(run: int, seq: int, state: dict[str, object]) -> None:
    pass


def main() -> None:
    job = Job.asked()
    keep: Keep = forget
    database = job.folder / "steps.db"
    if job.durable:
        db = sqlite3.connect(database, isolation_level=None)
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = FULL")
        db.execute("CREATE TABLE steps (run INT, seq INT, state TEXT, PRIMARY KEY (run, seq))")
        keep = partial(insert, db)
    for number in job.rounds(partial(count_commits, database) if job.durable else None):
        require_final(one(number, keep))
    job.report()


main()
