"""The commits of a journal, seen at the connection that makes them."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Literal
from unittest.mock import patch

Row = Sequence[Any]
"""Of a record: its run's number, seq, epoch, time, type and data."""
Tell = Callable[[Literal["before", "after"], list[Row]], None]


@contextmanager
def watched(tell: Tell) -> Iterator[None]:
    """Tell of each append to journals that are opened meanwhile: before its rows are inserted, and
    after the commit that makes them durable."""

    class Connection(sqlite3.Connection):
        appended: list[list[Row]]

        def executemany(self, sql: str, rows: Iterable[Any], /) -> sqlite3.Cursor:
            inserted = [*rows]
            tell("before", inserted)
            self.appended.append(inserted)
            return super().executemany(sql, inserted)

        def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
            done = super().execute(sql, *values)
            if sql.startswith("BEGIN"):
                self.appended = []
            if sql == "COMMIT":
                for rows in self.appended:
                    tell("after", rows)
            return done

    with patch("sqlite3.connect", partial(sqlite3.connect, factory=Connection)):
        yield


def types_of(rows: Iterable[Row]) -> list[str]:
    return [row[4] for row in rows]
