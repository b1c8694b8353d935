"""Runs that tests make in a journal, with records of their own."""

from __future__ import annotations

from loopkit.journal.journal import Claim, Journal
from loopkit.journal.records import NewRecord


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
