"""The records of all runs in their order, read from the journal's tables."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from typing import Any

from loopkit.journal.order import Place, Placed
from loopkit.journal.port import Record
from loopkit.journal.queries import SQL
from loopkit.journal.storable import MAX_INTEGER

_MOST = 500
_CHARACTERS = 4_000_000
"""The characters to read at once; the last record may exceed them."""


def records_after(db: sqlite3.Connection, after: Place, family: str | None) -> list[Placed]:
    removals, row = (min(max(number, 0), MAX_INTEGER) for number in after)
    values = {"removals": removals, "row": row, "family": family, "limit": _MOST}
    cursor = db.execute(SQL["written" if family is None else "written_by_family"], values)
    # A cursor that is left open would keep the log from being written back.
    with closing(cursor):
        return list(_until_enough(cursor))


def _until_enough(rows: Iterable[tuple[Any, ...]]) -> Iterator[Placed]:
    size = 0
    for count, (removals, row, run, *record) in enumerate(rows, 1):
        placed = Placed(Place(removals, row), str(run), Record(*record))
        yield placed
        size += len(str(placed.record.data))
        if count == _MOST or size > _CHARACTERS:
            return


def newest(db: sqlite3.Connection) -> Place:
    return Place(*db.execute(SQL["newest"]).fetchone())
