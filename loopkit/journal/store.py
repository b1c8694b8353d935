"""Requests to the journal's tables in SQL; the caller holds the transaction."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import NamedTuple, TypeVar

from loopkit.journal.errors import (
    ClaimLost,
    JournalError,
    JournalUnusable,
    MessageWaits,
    NotInInbox,
    RunBusy,
    RunDamaged,
    RunExists,
    SequenceConflict,
    UnknownDefinition,
    UnknownRun,
)
from loopkit.journal.faults import is_corrupt
from loopkit.journal.owner import Owner
from loopkit.journal.port import CLAIMED, History, InboxMessage, NewRecord, Record, RunRow
from loopkit.journal.queries import SQL
from loopkit.journal.storable import MAX_INTEGER, refuse_time
from loopkit.journal.stored_order import newest

_MAX_PID = 2**31 - 1


class Head(NamedTuple):
    """The head of a run: its newest record's number, epoch and time."""

    seq: int
    epoch: int
    at: float


InPlace = TypeVar("InPlace", Head, Record)


@dataclass(frozen=True, slots=True)
class NewRun:
    """A run that is not stored yet; `created_at` in Unix seconds."""

    run: str
    machine: str
    definition: str
    created_at: float


@dataclass(frozen=True, slots=True)
class Tenure:
    """One ownership of one run: `owner` is the name that its process announced."""

    run_id: int
    run: str
    epoch: int
    owner: str


def claim_data() -> str:
    """The data of a claim: its owner, which is this process."""
    return json.dumps({"pid": os.getpid(), "host": os.uname().nodename})


def create(
    db: sqlite3.Connection, new: NewRun, owner: str, records: Sequence[NewRecord]
) -> tuple[Tenure, int]:
    """Store `new` with `records`, the claim first; returns its tenure and last `seq`."""
    values = {
        "run": new.run,
        "machine": new.machine,
        "definition": new.definition,
        "created_at": new.created_at,
        "owner": owner,
    }
    inserted = db.execute(SQL["insert_run"], values)
    if not inserted.rowcount:
        raise RunExists(new.run)
    assert inserted.lastrowid is not None
    tenure = Tenure(inserted.lastrowid, new.run, 1, owner)
    return tenure, _insert(db, tenure, 0, records)


def claim(
    db: sqlite3.Connection, run: str, owner: str, sees: Callable[[str], bool], record: NewRecord
) -> tuple[Tenure, int]:
    """Give `run` to `owner` unless `sees` says that its present owner is alive."""
    run_id, present = _find(db, run)
    if present is not None and sees(present):
        raise RunBusy(run, _newest_owner(db, run_id))
    head = _head(db, run_id, run)
    db.execute(SQL["own"], {"run_id": run_id, "owner": owner})
    tenure = Tenure(run_id, run, head.epoch + 1, owner)
    return tenure, _insert(db, tenure, head.seq, [record])


def refuse_others(db: sqlite3.Connection, tenure: Tenure, expected: int) -> None:
    """Raise ClaimLost or SequenceConflict if others have written to a run."""
    head = _head(db, tenure.run_id, tenure.run)
    if head.epoch != tenure.epoch:
        raise ClaimLost(
            f"run {tenure.run!r} was taken over by {_newest_owner(db, tenure.run_id)}; "
            f"this claim on it (epoch {tenure.epoch}, now {head.epoch}) appends nothing more"
        )
    if head.seq != expected:
        raise SequenceConflict(tenure.run, expected=expected, found=head.seq)


def append(
    db: sqlite3.Connection,
    tenure: Tenure,
    expected: int,
    records: Sequence[NewRecord],
    consumes: Iterable[str],
    *,
    releases: bool = False,
    unless: Sequence[str] = (),
) -> int:
    """Add `records` after `expected`, the run's last record, and consume messages.

    Returns the new last `seq`.
    """
    seq = _insert(db, tenure, expected, records)
    for message_id in consumes:
        _consume(db, tenure, message_id, seq)
    if _waits(db, tenure, unless):
        raise MessageWaits(tenure.run)
    if releases:
        release(db, tenure)
    return seq


def release(db: sqlite3.Connection, tenure: Tenure, unless: Sequence[str] = ()) -> bool:
    """End the tenure, if another process has not; False if messages of these kinds wait."""
    if _waits(db, tenure, unless):
        return False
    db.execute(SQL["disown"], {"run_id": tenure.run_id, "owner": tenure.owner})
    return True


def _waits(db: sqlite3.Connection, tenure: Tenure, kinds: Sequence[str]) -> bool:
    """Whether a message of one of the kinds waits."""
    return bool(kinds) and any(message.kind in kinds for message in inbox(db, tenure))


def has(db: sqlite3.Connection, run: str) -> bool:
    return db.execute(SQL["run"], {"run": run}).fetchone() is not None


def read(db: sqlite3.Connection, run: str, after: int, limit: int | None) -> list[Record]:
    run_id, _owner = _find(db, run)
    behind = min(max(after, 0), MAX_INTEGER)
    values = {"run_id": run_id, "after": behind, "limit": -1 if limit is None else limit}
    with _corruption_is_damage(run):
        _sound_head(db, run_id, run)
        return [_sound(run, Record(*row)) for row in db.execute(SQL["read"], values)]


def runs(
    db: sqlite3.Connection,
    machine: str | None,
    run: str | None,
    children: bool,
    before: str | None,
    skipping: Sequence[str],
    limit: int,
    sees: Callable[[str], bool],
) -> list[RunRow]:
    most = min(max(limit, 0), MAX_INTEGER)
    values = {
        "machine": machine,
        "run": run,
        "children": children,
        "before": before,
        "limit": -1 if skipping else most,
    }
    # A cursor that is left open would keep the log from being written back.
    with closing(db.execute(SQL["runs"], values)) as rows:
        wanted = (row for row in rows if not (skipping and _ends_with(db, row[0], skipping)))
        listed = list(islice(wanted, most))
    return [_run_row(db, _sound_head, sees, *row) for row in listed]


def _ends_with(db: sqlite3.Connection, run_id: int, types: Sequence[str]) -> bool:
    """Whether the last record of a run has one of the types; False if it cannot be read."""
    try:
        row = db.execute(SQL["last_type"], (run_id,)).fetchone()
    except sqlite3.DatabaseError as error:
        if not is_corrupt(error):
            raise
        return False
    return row is not None and row[0] in types


def _run_row(
    db: sqlite3.Connection,
    look: Callable[[sqlite3.Connection, int, str], Head | Record],
    sees: Callable[[str], bool],
    run_id: int,
    run: str,
    machine: str,
    definition: str,
    created_at: float,
    owner: str | None,
) -> RunRow:
    damage: RunDamaged | None = None
    # SQLite checks the types of columns when they are written, and not when they are read.
    if None in (run, machine, definition, created_at):
        damage = RunDamaged(str(run), f"row {run_id} of the runs is not what was written")
        return RunRow(str(run), "", "", 0.0, 0.0, 0, False, damage)
    head: Head | Record = Head(0, 0, created_at)
    try:
        with _corruption_is_damage(run):
            head = look(db, run_id, run)
    except RunDamaged as error:
        damage = error
    is_driven = owner is not None and sees(owner)
    return RunRow(run, machine, definition, created_at, head.at, head.seq, is_driven, damage)


def histories(
    db: sqlite3.Connection,
    machine: str | None,
    before: int | None,
    limit: int,
    sees: Callable[[str], bool],
) -> list[History]:
    values = {"machine": machine, "before": before, "limit": limit}
    found: list[History] = []
    for row in db.execute(SQL["histories"], values).fetchall():
        records: list[Record] = []
        listed = _run_row(db, partial(_read_all, records), sees, *row)
        found.append(History(row[0], listed, () if listed.damage else records))
    return found


def _read_all(into: list[Record], db: sqlite3.Connection, run_id: int, run: str) -> Record:
    """Read all records of a run into a list, and return the last one."""
    rows = db.execute(SQL["read"], {"run_id": run_id, "after": 0, "limit": -1})
    for place, row in enumerate(rows, 1):
        record = Record(*row)
        if record.seq != place:
            raise RunDamaged(run, f"record {place} is missing")
        into.append(_sound(run, record))
    if not into:
        raise RunDamaged(run, "it has no records")
    return into[-1]


def find_runs(db: sqlite3.Connection, beginning: str, limit: int) -> list[str]:
    values = {"beginning": beginning, "limit": min(max(limit, 0), MAX_INTEGER)}
    return [str(run) for (run,) in db.execute(SQL["named"], values)]


def remove(db: sqlite3.Connection, run: str, sees: Callable[[str], bool]) -> None:
    """Delete a run and its children, whose records and messages go with them.

    Raises `RunBusy` if the owner of one of them is alive.
    """
    _find(db, run)
    family = db.execute(SQL["family"], {"run": run}).fetchall()
    for run_id, name, owner in family:
        if owner is not None and sees(owner):
            raise RunBusy(name, _newest_owner(db, run_id))
    before = newest(db)
    for run_id, _, _ in family:
        db.execute(SQL["remove"], {"run_id": run_id})
    db.execute(SQL["note_removal"], {"before": before.row})


def remove_definitions(db: sqlite3.Connection) -> None:
    """Delete the definitions that no run names."""
    db.execute(SQL["remove_definitions"])


def store_definition(db: sqlite3.Connection, digest: str, text: str) -> None:
    db.execute(SQL["store_definition"], {"digest": digest, "text": text})


def definition(db: sqlite3.Connection, digest: str) -> str:
    row = db.execute(SQL["definition"], {"digest": digest}).fetchone()
    if row is None:
        raise UnknownDefinition(digest)
    return str(row[0])


def post(db: sqlite3.Connection, run: str, message: InboxMessage) -> str | None:
    """Store a message; returns the data that the run already has under its id, else None."""
    run_id, _owner = _find(db, run)
    values = {
        "run_id": run_id,
        "message_id": message.message_id,
        "kind": message.kind,
        "data": message.data,
        "at": message.at,
    }
    if db.execute(SQL["post"], values).rowcount:
        return None
    return str(db.execute(SQL["posted"], values).fetchone()[0])


def inbox(db: sqlite3.Connection, tenure: Tenure) -> list[InboxMessage]:
    rows = db.execute(SQL["inbox"], {"run_id": tenure.run_id})
    return [InboxMessage(*row) for row in rows]


def _insert(db: sqlite3.Connection, tenure: Tenure, seq: int, records: Sequence[NewRecord]) -> int:
    run_id, epoch = tenure.run_id, tenure.epoch
    rows = [
        (run_id, place, epoch, new.at, new.type, new.text)
        for place, new in enumerate(records, seq + 1)
    ]
    db.executemany(SQL["append"], rows)
    return seq + len(records)


def _consume(db: sqlite3.Connection, tenure: Tenure, message_id: str, seq: int) -> None:
    values = {"run_id": tenure.run_id, "message_id": message_id, "seq": seq}
    if not db.execute(SQL["consume"], values).rowcount:
        raise NotInInbox(tenure.run, message_id)


def _find(db: sqlite3.Connection, run: str) -> tuple[int, str | None]:
    row = db.execute(SQL["run"], {"run": run}).fetchone()
    if row is None:
        raise UnknownRun(run)
    return row[0], row[1]


def _head(db: sqlite3.Connection, run_id: int, run: str) -> Head:
    row = db.execute(SQL["head"], (run_id,)).fetchone()
    if row is None:
        raise RunDamaged(run, "it has no records")
    return _sound(run, Head(*row))


def _sound_head(db: sqlite3.Connection, run_id: int, run: str) -> Head:
    _refuse_gap(db, run_id, run)
    return _head(db, run_id, run)


@contextmanager
def _corruption_is_damage(run: str) -> Iterator[None]:
    """Raise RunDamaged for a damaged page: only the run whose records are on it is damaged."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        if not is_corrupt(error):
            raise
        raise RunDamaged(run, f"its records cannot be read ({error})") from error


def _refuse_gap(db: sqlite3.Connection, run_id: int, run: str) -> None:
    missing = db.execute(SQL["missing"], {"run_id": run_id}).fetchone()
    if missing is not None:
        raise RunDamaged(run, f"record {missing[0]} is missing")


def _sound(run: str, placed: InPlace) -> InPlace:
    """A head or record, if its time and epoch are possible: each epoch began with a record."""
    if not 1 <= placed.epoch <= placed.seq:
        raise RunDamaged(run, f"record {placed.seq} has no epoch that can be: {placed.epoch}")
    try:
        refuse_time("a record", placed.at)
    except JournalError as error:
        raise RunDamaged(run, f"record {placed.seq} has no time that can be") from error
    return placed


def _newest_owner(db: sqlite3.Connection, run_id: int) -> Owner:
    row = db.execute(SQL["newest_claim"], {"run_id": run_id, "type": CLAIMED}).fetchone()
    try:
        at, data = row
        refuse_time("a claim", at)
        claimed = json.loads(data)
        return Owner(pid=_pid(claimed["pid"]), host=str(claimed["host"]), since=at)
    except (TypeError, ValueError, KeyError, JournalError) as error:
        raise JournalUnusable(
            "a claim in the journal cannot be read; restore the journal from a copy"
        ) from error


def _pid(number: object) -> int:
    if not isinstance(number, int) or not 0 < number <= _MAX_PID:
        raise ValueError(f"{number!r} is the number of no process")
    return number
