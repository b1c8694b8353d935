"""A writer without a thread, for a database in memory: nothing there has to be waited for."""

from __future__ import annotations

from typing import Any

from loopkit.journal.writer import Job, Outcome, Writer, settle


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

    def _take_on(self, job: Job[Any]) -> None:
        settle(self._commit([job]) if job.writes else [self._answer(job)])
