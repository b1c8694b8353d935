"""Opens a journal, whichever store keeps it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from loopkit import DISTRIBUTION
from loopkit.journal.errors import JournalUnusable, NoTables
from loopkit.journal.files import is_unused
from loopkit.journal.port import Claim, Journal
from loopkit.journal.sqlite import open_sqlite

__all__ = ["Claim", "Journal", "open_journal", "postgres"]


def open_journal(
    place: Path | str | None,
    *,
    readonly: bool = False,
    if_used: bool = False,
    clock: Callable[[], float] = time.time,
) -> Journal:
    """The journal in a state folder, made if it is missing, or at a URL; without either in memory.

    With `if_used` none is made; where there is none, it is one in memory. Raises JournalUnusable,
    and where the journal can still be read only once something is to be written. With `readonly` it
    shows the journal that is in the folder now, and no file of it is ever written. There may be
    none yet: then there are no runs. If it is replaced or removed while it is open, the next
    request notices that. `clock` gives the time of claims, in Unix seconds.
    """
    if isinstance(place, str):
        with postgres():
            from loopkit.journal.postgres.store import open_postgres  # noqa: PLC0415
        try:
            return open_postgres(place, clock, readonly=readonly)
        except NoTables:
            if not if_used:
                raise
            place = None
    is_in_memory = place is None or (if_used and is_unused(place))
    return open_sqlite(None if is_in_memory else place, clock, readonly=readonly)


@contextmanager
def postgres() -> Iterator[None]:
    """While what knows PostgreSQL is imported, which takes its time and is an extra."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name not in ("psycopg", "procrastinate"):
            raise
        raise JournalUnusable(
            f"a journal in PostgreSQL needs {error.name}; pip install '{DISTRIBUTION}[postgres]'"
        ) from error
