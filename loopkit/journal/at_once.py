"""A writer without a thread, for a database in memory: nothing there has to be waited for."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import TypeVar

from loopkit.journal.port import JournalError
from loopkit.journal.writer import Job, Outcome, Writer, settle

T = TypeVar("T")


class AtOnce(Writer):
    """Runs each job while it is asked for, in the thread of the caller; all else as its base."""

    def _start(self) -> None:
        """No thread is needed."""

    def close(self) -> Outcome[None]:
        if self._end is None:
            self._end = Outcome()
            self._connection.close()
            self._end.set_result(None)
        return self._end

    def _ask(
        self,
        work: Callable[[sqlite3.Connection], T],
        committed: Callable[[], None],
        *,
        writes: bool,
    ) -> Outcome[T]:
        if self.closed:
            raise JournalError(f"the journal {self._place} is closed; open it again")
        job = Job(work, committed, Outcome[T](), writes)
        settle(self._commit([job]) if writes else [self._answer(job)])
        return job.outcome
