"""The finished runs of a machine."""

from __future__ import annotations

from loopkit.cli.stored_runs import with_runs
from loopkit.drive.stored_runs import StoredRuns, state_after
from loopkit.journal.errors import RunUnreadable
from loopkit.views.plan.past import Past, PastRun, past_of

NEWEST = 200
"""The maximum number of runs that are read."""


def past_runs(machine: str) -> Past | None:
    """The figures of the newest runs of a machine."""

    async def read(stored: StoredRuns) -> list[PastRun]:
        found: list[PastRun] = []
        for row in await stored.journal.runs(machine, NEWEST, children=True):
            try:
                history = await stored.events(row.run)
                state = state_after(row.run, history)
            except RunUnreadable:
                # `runs ls` reports its fault; the figures of other runs do not depend on it.
                continue
            found.append((state, [each.event for each in history]))
        return found

    return past_of(with_runs(read))
