"""A view of the journal in a folder, whose files are never written: it shows what is there now.

There may be no journal yet: then there are no runs. If it is replaced or removed while the view is
open, the next request notices that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, NoReturn

from loopkit.journal.contents import Contents
from loopkit.journal.errors import NoJournal, OnlyRead
from loopkit.journal.folder import DATABASE
from loopkit.journal.memory import MemoryJournal
from loopkit.journal.order import Place, Placed
from loopkit.journal.port import Claim, History, Journal, NewRecord, Record, RunRow
from loopkit.journal.sqlite import SqliteJournal


class _Opened(NamedTuple):
    """An open journal, and what identifies its file."""

    journal: SqliteJournal
    file: tuple[int, ...]
    is_still: bool
    """Whether no file beside it shows writers, so that it is read as it was when opened."""


class JournalView:
    """A `Journal` that is only read, and the order of its records."""

    keeps_texts = True

    def __init__(self, folder: Path) -> None:
        """Raises `JournalUnusable` if there is a journal that cannot be read."""
        self._folder = folder
        self._path = folder.absolute() / DATABASE
        self._nothing = MemoryJournal()
        self._opening = asyncio.Lock()
        self._opened = self._open()
        self.era = 0
        """How often the journal was removed or replaced; places are valid in one era only."""

    @property
    def contents(self) -> Contents:
        journal: Journal = self._opened.journal if self._opened else self._nothing
        return journal.contents

    def _open(self) -> _Opened | None:
        file = self._file()
        try:
            journal = SqliteJournal.view(self._folder)
        except NoJournal:
            return None
        is_still = not self._has_writers()
        return _Opened(journal, self._file(is_still=True) if is_still else file, is_still)

    def _file(self, *, is_still: bool = False) -> tuple[int, ...]:
        """Numbers that differ for another file in its place, or with `is_still` after a change."""
        try:
            found = self._path.stat()
        except OSError:
            return ()
        # While it is open, no other file gets its number.
        same = (found.st_dev, found.st_ino)
        return (*same, found.st_mtime_ns, found.st_size) if is_still else same

    def _has_writers(self) -> bool:
        return self._path.with_name(f"{DATABASE}-shm").exists()

    def _is_current(self) -> bool:
        if self._opened is None:
            return not self._file()
        _, file, is_still = self._opened
        if is_still and self._has_writers():
            return False
        return self._file(is_still=is_still) == file

    async def _now(self) -> SqliteJournal | None:
        """The journal that is there now; None if there is none."""
        if not self._is_current():
            async with self._opening:
                if not self._is_current():
                    await self._open_again()
        return self._opened.journal if self._opened else None

    async def _open_again(self) -> None:
        before = self._opened
        # A locked file is waited for in a thread, so that the event loop goes on.
        self._opened = await asyncio.to_thread(self._open)
        if before is not None:
            # A file that was written to while no writers were seen is still the same journal.
            is_same = self._opened is not None and self._opened.file[:2] == before.file[:2]
            self.era += not is_same
            await before.journal.close()

    async def _of_runs(self) -> Journal:
        return await self._now() or self._nothing

    async def has(self, run: str) -> bool:
        return await (await self._of_runs()).has(run)

    async def read(self, run: str, after: int = 0, limit: int | None = None) -> list[Record]:
        return await (await self._of_runs()).read(run, after, limit)

    async def runs(
        self,
        machine: str | None = None,
        limit: int = 1000,
        *,
        run: str | None = None,
        children: bool = False,
        before: str | None = None,
        skipping: Sequence[str] = (),
    ) -> list[RunRow]:
        journal = await self._of_runs()
        return await journal.runs(
            machine, limit, run=run, children=children, before=before, skipping=skipping
        )

    async def histories(
        self, machine: str | None = None, *, before: int | None = None, limit: int = 50
    ) -> list[History]:
        return await (await self._of_runs()).histories(machine, before=before, limit=limit)

    async def find_runs(self, beginning: str, limit: int = 1000) -> list[str]:
        return await (await self._of_runs()).find_runs(beginning, limit)

    async def definition(self, digest: str) -> str:
        return await (await self._of_runs()).definition(digest)

    async def records_after(self, after: Place, family: str | None = None) -> list[Placed]:
        """The next records after a place, as in `RecordOrder`."""
        journal = await self._now()
        return [] if journal is None else await journal.records_after(after, family)

    async def newest(self) -> Place:
        journal = await self._now()
        return Place() if journal is None else await journal.newest()

    async def create(
        self, run: str, *, machine: str, definition: str, records: Sequence[NewRecord]
    ) -> Claim:
        self._refuse()

    async def claim(self, run: str) -> Claim:
        self._refuse()

    async def remove(self, *runs: str) -> None:
        self._refuse()

    async def store_definition(self, digest: str, text: str) -> None:
        self._refuse()

    async def post(self, run: str, kind: str, message_id: str, data: str, at: float) -> str | None:
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise OnlyRead(str(self._folder))

    async def close(self) -> None:
        if self._opened is not None:
            await self._opened.journal.close()
        await self._nothing.close()
