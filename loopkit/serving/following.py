"""Following a journal: one reader for all followers, whichever process drives the runs.

A follower is only a place in the order of all records. The newest records are kept once for all
followers; one that is farther behind reads from the journal. So a slow follower costs the others
neither memory nor time, and one that went away can continue at its place.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from loopkit.journal import JournalError, Place, Placed, RecordOrder
from loopkit.text.run_ids import BELOW

POLL_S = 0.02
RETRY_S = 1.0
"""After how long the journal is read again where it could not be."""
MOST_KEPT = 2_000
MOST_KEPT_BYTES = 16_000_000


class Told(NamedTuple):
    """A record as followers get it."""

    place: Place
    run: str
    type: str
    data: bytes


class Follower:
    """Reads a journal while anybody follows it, by short reads at short intervals."""

    def __init__(
        self, order: RecordOrder, tell: Callable[[Placed], bytes], poll_s: float = POLL_S
    ) -> None:
        """`tell` makes of each record what followers get, once for all who keep up."""
        self._order = order
        self._tell = tell
        self._poll_s = poll_s
        self._kept: deque[Told] = deque()
        self._kept_bytes = 0
        self._from: Place | None = None
        """The place behind which everything is kept, up to `_to`; none where nothing is."""
        self._to = Place()
        self._era = order.era
        self.followers = 0
        """How many follow now."""
        self._wanted = asyncio.Event()
        self.is_closed = False
        self.news = asyncio.Event()
        """Set, and replaced, when there is something new, or nothing comes any more."""

    @property
    def kept(self) -> int:
        """How many records are kept for those who keep up."""
        return len(self._kept)

    @property
    def era(self) -> int:
        """The number of the journal that places belong to, which may be replaced by another."""
        return self._order.era

    async def newest(self) -> Place:
        """The place of the last record of all."""
        return await self._order.newest()

    async def known_place(self, place: Place) -> Place:
        """The place that a client names; the beginning where it belongs to another journal."""
        return place if place <= await self._order.newest() else Place()

    async def has(self, run: str) -> bool:
        """Whether a run is still there; raises JournalError."""
        return await self._order.has(run)

    @contextmanager
    def following(self) -> Iterator[None]:
        """Count one more follower while it lasts."""
        self.followers += 1
        self._wanted.set()
        try:
            yield
        finally:
            self.followers -= 1

    async def read(
        self, after: Place, family: str | None, *, is_last: bool = False
    ) -> tuple[Sequence[Told], Place]:
        """What comes behind a place, in order, and the place to go on at.

        Of all runs, or of one and its children. Where it is nothing, `news` tells of more, if it
        was taken before this was asked; for who asks a last time there is nothing more. Raises
        JournalError.
        """
        known, kept_from = self._to, self._from
        is_kept = kept_from is not None and kept_from <= after and self._era == self.era
        if is_kept and after.removals == known.removals and not is_last:
            return self._recent(after, family)
        told = [self._told(placed) for placed in await self._order.records_after(after, family)]
        if told:
            return told, told[-1].place
        # The reader had come so far before, and none of it was for this follower.
        return (), max(after, known)

    def _recent(self, after: Place, family: str | None) -> tuple[Sequence[Told], Place]:
        first = bisect_right(self._kept, after, key=lambda told: told.place)
        new = [self._kept[at] for at in range(first, len(self._kept))]
        return [told for told in new if _is_of(told.run, family)], max(after, self._to)

    async def run(self) -> None:
        """Read the journal until cancelled or closed."""
        while not self.is_closed:
            try:
                if not self.followers or self._from is None:
                    await self._rest()
                placed = await self._order.records_after(self._to)
                if self._era != self.era:
                    self._from = None
                    continue
            except JournalError:
                # Each follower that asks for itself is told why.
                await asyncio.sleep(RETRY_S)
                continue
            if placed:
                self._keep([self._told(one) for one in placed])
                self._wake()
            else:
                await asyncio.sleep(self._poll_s)

    async def _rest(self) -> None:
        self._kept.clear()
        self._kept_bytes = 0
        self._from = None
        if not self.followers:
            self._wanted.clear()
            await self._wanted.wait()
        self._from = self._to = await self._order.newest()
        self._era = self.era
        # Who had read before does not know what was written since.
        self._wake()

    def _keep(self, told: Sequence[Told]) -> None:
        last = told[-1].place
        if last.removals != self._to.removals:
            # Places before and behind a removal can't be told apart by their rows.
            self._kept.clear()
            self._kept_bytes = 0
            self._from = last
        else:
            self._kept.extend(told)
            self._kept_bytes += sum(len(one.data) for one in told)
        self._to = last
        while len(self._kept) > MOST_KEPT or self._kept_bytes > MOST_KEPT_BYTES:
            gone = self._kept.popleft()
            self._from = gone.place
            self._kept_bytes -= len(gone.data)

    def close(self) -> None:
        """End every follower."""
        self.is_closed = True
        self._wanted.set()
        self._wake()

    def _wake(self) -> None:
        self.news.set()
        self.news = asyncio.Event()

    def _told(self, placed: Placed) -> Told:
        return Told(placed.place, placed.run, placed.record.type, self._tell(placed))


def _is_of(run: str, family: str | None) -> bool:
    return family is None or run == family or run.startswith(f"{family}{BELOW}")
