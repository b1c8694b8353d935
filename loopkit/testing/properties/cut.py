"""A process that dies at one append of a run, as if it had been killed there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from loopkit.journal.journal import Claim
from loopkit.journal.records import InboxMessage, NewRecord

Moment = Literal["before", "after"]


class CutOff(Exception):
    """The process is dead: it does nothing more."""


@dataclass
class Cut:
    """Counts the appends of a run, and ends its process at one of them."""

    at: int | None = None
    """The number of the append, from 1; None for none."""
    moment: Moment = "after"
    """Whether the append is lost or was still made."""
    appends: int = 0
    is_dead: bool = False

    def refuse_dead(self) -> None:
        """Raise CutOff where the process is dead."""
        if self.is_dead:
            raise CutOff

    def revive(self) -> None:
        """Go on as another process, which is not cut off."""
        self.at, self.is_dead = None, False

    def is_now(self, moment: Moment) -> bool:
        return self.at == self.appends and self.moment == moment

    def __str__(self) -> str:
        return f"{self.moment} append {self.at}"


class CutClaim(Claim):
    """A claim on a run whose process may be dead."""

    def __init__(self, claim: Claim, cut: Cut) -> None:
        self.run = claim.run
        self._claim = claim
        self._cut = cut

    @property
    def epoch(self) -> int:
        return self._claim.epoch

    @property
    def seq(self) -> int:
        return self._claim.seq

    async def append(
        self,
        records: Sequence[NewRecord],
        consumes: Sequence[str] = (),
        *,
        releases: bool = False,
        unless: Sequence[str] = (),
    ) -> int:
        self._cut.refuse_dead()
        self._cut.appends += 1
        self._die("before")
        seq = await self._claim.append(records, consumes, releases=releases, unless=unless)
        self._die("after")
        return seq

    async def inbox(self) -> list[InboxMessage]:
        self._cut.refuse_dead()
        return await self._claim.inbox()

    async def release(self, unless: Sequence[str] = ()) -> bool:
        # The kernel releases the lock of a killed process like this.
        return await self._claim.release(() if self._cut.is_dead else unless)

    def _die(self, moment: Moment) -> None:
        if self._cut.is_now(moment):
            self._cut.is_dead = True
            raise CutOff
