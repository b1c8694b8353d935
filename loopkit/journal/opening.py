"""The journal of a state folder."""

from __future__ import annotations

from pathlib import Path

from loopkit.journal.memory import MemoryJournal
from loopkit.journal.port import Journal
from loopkit.journal.sqlite import SqliteJournal


def open_journal(state: Path | None) -> Journal:
    """The SQLite journal of a state folder; without one a journal in memory."""
    return MemoryJournal() if state is None else SqliteJournal.open(state)
