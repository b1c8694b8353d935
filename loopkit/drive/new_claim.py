"""New claims: a run that is stored with its first records, in one commit."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from loopkit.journal import Claim, InboxMessage, Journal, NewRecord


class NewClaim:
    """The `Claim` on a run that is not stored before something is appended to it."""

    __slots__ = ("_claim", "_definition", "_journal", "_machine", "append", "release", "run")

    append: Callable[..., Coroutine[Any, Any, int]]
    """Appends as every claim does; raises RunExists if another process drew the same id."""

    release: Callable[..., Coroutine[Any, Any, bool]]

    def __init__(self, journal: Journal, run: str, machine: str, definition: str) -> None:
        self._journal = journal
        self.run = run
        self._machine = machine
        self._definition = definition
        self._claim: Claim | None = None
        self.append = self._store
        self.release = self._release

    @property
    def epoch(self) -> int:
        return 1

    @property
    def seq(self) -> int:
        return self._claim.seq if self._claim else 0

    async def _store(
        self,
        records: Sequence[NewRecord],
        _consumes: Sequence[str] = (),
        *,
        releases: bool = False,
        unless: Sequence[str] = (),
    ) -> int:
        self._claim = await self._journal.create(
            self.run, machine=self._machine, definition=self._definition, records=records
        )
        self.append, self.release = self._claim.append, self._claim.release
        if releases:
            await self._claim.release()
        return self._claim.seq

    async def inbox(self) -> list[InboxMessage]:
        return await self._claim.inbox() if self._claim else []

    async def _release(self, _unless: Sequence[str] = ()) -> bool:
        return True
