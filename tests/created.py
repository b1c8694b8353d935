"""Runs that tests make in a journal, with records of their own."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from loopkit.journal.journal import Claim, Journal, open_journal
from loopkit.journal.records import NewRecord
from tests.support_postgres import url_of

Opens = Callable[..., Journal]
STORES: dict[str, Callable[[Path], Opens]] = {
    "memory": lambda _: partial(open_journal, None),
    "file": lambda folder: partial(open_journal, folder),
    "postgres": lambda folder: partial(open_journal, url_of(folder)),
}
"""What keeps journals, and how that of a folder is opened; each keeps what a journal promises."""


async def created(
    journal: Journal,
    run: str = "r",
    *records: NewRecord,
    machine: str = "m",
    definition: str = "d",
) -> Claim:
    """The claim on a new run that holds these records behind its claim."""
    claim = journal.begin(run, machine=machine, definition=definition)
    await claim.append(records)
    return claim
