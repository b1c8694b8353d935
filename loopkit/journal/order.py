"""The order in which the records of all runs were written, and places in it."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from loopkit.journal.port import Record


class Place(NamedTuple):
    """A place in the order in which the records of all runs were written.

    It stays valid when runs are removed later. Records that were written later have greater places.
    """

    removals: int = 0
    """How often the newest records had been removed by then: their rows are used again."""
    row: int = 0

    def __str__(self) -> str:
        return f"{self.removals}.{self.row}"


class Placed(NamedTuple):
    """A record of some run, with its place among the records of all runs."""

    place: Place
    run: str
    record: Record


class RecordOrder(Protocol):
    """The records of all runs in the order in which they were written, by any process."""

    @property
    def era(self) -> int:
        """How often the journal was replaced by another one; a place is valid in one era only."""
        ...

    async def has(self, run: str) -> bool:
        """Whether there is a run of this name."""
        ...

    async def records_after(self, after: Place, family: str | None = None) -> list[Placed]:
        """The next records after a place, of all runs or of one and its children, in order.

        At most some hundreds and some megabytes; empty if there are no more.
        """
        ...

    async def newest(self) -> Place:
        """The place of the record that was written last."""
        ...
