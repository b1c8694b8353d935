"""Following a journal: one reader for all followers, whichever process drives the runs.

A follower is only a place in the order of all records. The newest records are kept in memory, once
for all followers; a follower that is further behind reads from the journal.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from loopkit.journal.errors import JournalError
from loopkit.journal.journal import Journal
from loopkit.journal.records import Place, Placed
from loopkit.text.run_ids import BELOW

POLL_S = 0.02
RETRY_S = 1.0
MOST_KEPT = 2_000
MOST_KEPT_BYTES = 16_000_000


class FollowedRecord(NamedTuple):
    place: Place
    run: str
    type: str
    data: bytes


class Follower:
    """Polls a journal with short reads for as long as it has followers."""

    def __init__(
        self, journal: Journal, tell: Callable[[Placed], bytes], poll_s: float = POLL_S
    ) -> None:
        """`tell` encodes a record for followers, once for all of those who keep up."""
        self.journal = journal
        self._tell = tell
        self._poll_s = poll_s
        self._kept: deque[FollowedRecord] = deque()
        self._kept_bytes = 0
        self._from: Place | None = None
        """All records after this place and up to `_to` are kept; None if none are."""
        self._to = Place()
        self._era = journal.era
        """That of the journal that the kept records belong to; a replaced one has another."""
        self.followers = 0
        self._wanted = asyncio.Event()
        self.is_closed = False
        self.news = asyncio.Event()
        """Set, and replaced, when there are new records, or when the follower is closed."""

    @contextmanager
    def following(self) -> Iterator[None]:
        self.followers += 1
        self._wanted.set()
        try:
            yield
        finally:
            self.followers -= 1

    async def read(
        self, after: Place, family: str | None, *, is_last: bool = False
    ) -> tuple[Sequence[FollowedRecord], Place]:
        """The records after a place, in order, and the place to continue at.

        They are those of all runs, or of one and its children. If there are none, wait for the
        `news` that was taken before this call. With `is_last` the journal itself is read, because
        no news will follow. Raises JournalError.
        """
        known, kept_from = self._to, self._from
        is_kept = kept_from is not None and kept_from <= after and self._era == self.journal.era
        if is_kept and not is_last:
            return self._recent(after, family)
        if placed := await self.journal.records_after(after, family):
            return [self._prepare(one) for one in placed], placed[-1].place
        # The reader had come as far before, and none of it was for this follower.
        return (), max(after, known)

    def _recent(self, after: Place, family: str | None) -> tuple[Sequence[FollowedRecord], Place]:
        first = bisect_right(self._kept, after, key=lambda record: record.place)
        new = [self._kept[at] for at in range(first, len(self._kept))]
        if family is not None:
            below = f"{family}{BELOW}"
            new = [one for one in new if one.run == family or one.run.startswith(below)]
        return new, max(after, self._to)

    async def run(self) -> None:
        """Read the journal until cancelled or closed."""
        while not self.is_closed:
            try:
                if not self.followers or self._from is None:
                    await self._rest()
                placed = await self.journal.records_after(self._to)
                if self._era != self.journal.era:
                    self._from = None
                    continue
            except JournalError:
                # A follower that reads from the journal itself gets the error.
                await asyncio.sleep(RETRY_S)
                continue
            if placed:
                self._keep([self._prepare(one) for one in placed])
                self._wake()
            else:
                await asyncio.sleep(self._poll_s)

    def _forget(self, start: Place | None) -> None:
        self._kept.clear()
        self._kept_bytes = 0
        self._from = start

    async def _rest(self) -> None:
        self._forget(None)
        if not self.followers:
            self._wanted.clear()
            await self._wanted.wait()
        self._from = self._to = await self.journal.newest()
        self._era = self.journal.era
        # Earlier followers do not know what was written since.
        self._wake()

    def _keep(self, records: Sequence[FollowedRecord]) -> None:
        self._kept.extend(records)
        self._kept_bytes += sum(len(one.data) for one in records)
        self._to = records[-1].place
        while len(self._kept) > MOST_KEPT or self._kept_bytes > MOST_KEPT_BYTES:
            gone = self._kept.popleft()
            self._from = gone.place
            self._kept_bytes -= len(gone.data)

    def close(self) -> None:
        self.is_closed = True
        self._wanted.set()
        self._wake()

    def _wake(self) -> None:
        self.news.set()
        self.news = asyncio.Event()

    def _prepare(self, placed: Placed) -> FollowedRecord:
        return FollowedRecord(placed.place, placed.run, placed.record.type, self._tell(placed))
