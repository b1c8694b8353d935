"""A site: everything that the pages and the API of one server share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from loopkit.drive.stored_runs import StoredRuns
from loopkit.journal.journal import open_journal
from loopkit.language.load import Loaded
from loopkit.serving.access import Access
from loopkit.serving.appointments import Appointments
from loopkit.serving.following import Follower
from loopkit.serving.host import Host
from loopkit.serving.http.connections import Room
from loopkit.serving.http.streams import event_of_record
from loopkit.serving.run_pages import RunPages
from loopkit.serving.shown_runs import ShownRuns


@dataclass
class Site:
    """Runs over one journal, and who may see and answer them."""

    stored: StoredRuns
    host: Host | None
    """The host that drives runs; None if the site is read-only."""
    access: Access
    say: Callable[[str], None]
    """Reports faults to whoever runs the server."""
    machines: Sequence[Loaded] = ()
    """The machines that can be started: those that were named when the server was started."""
    longest_send_s: float = 20.0
    """The time that a client may take to read a piece of a stream."""
    room: Room = field(default_factory=Room)
    """The limits on the number and the times of connections."""
    runs: ShownRuns = field(init=False)
    pages: RunPages = field(init=False)
    follower: Follower = field(init=False)
    starts: dict[tuple[str, str], asyncio.Task[str]] = field(default_factory=dict)
    """The runs that forms have started, by form and input: a form that is sent twice starts one."""
    appointments: Appointments | None = field(init=False)
    """The moments at which the host continues runs by itself."""
    _following: asyncio.Task[None] | None = None
    _keeping: asyncio.Task[None] | None = None

    def __post_init__(self) -> None:
        journal = self.stored.journal
        self.runs = ShownRuns(self.stored)
        self.pages = RunPages(self.runs)
        self.follower = Follower(journal, event_of_record)
        host = self.host
        self.appointments = None if host is None else Appointments(host, journal, self.say)

    @classmethod
    def open(
        cls,
        state: Path,
        access: Access,
        say: Callable[[str], None],
        machines: Sequence[Loaded] = (),
        *,
        may_answer: bool = False,
    ) -> Site:
        """A site over the journal of a state folder; it writes only with `may_answer`.

        Raises NotRunnable and JournalError.
        """
        if may_answer:
            host = Host(state, machines, say)
            return cls(host.app, host, access, say, machines)
        return cls(StoredRuns(open_journal(state, readonly=True)), None, access, say, machines)

    async def __aenter__(self) -> Site:
        self._following = asyncio.create_task(self.follower.run())
        if self.appointments is not None:
            self._keeping = asyncio.create_task(self.appointments.run())
        return self

    async def __aexit__(self, *_: object) -> None:
        self.stop()
        if self._following is not None:
            self._following.cancel()
            await asyncio.gather(self._following, return_exceptions=True)
        if self._keeping is not None:
            # It may be about to claim a run, which it has to release.
            await self._keeping
        if self.host is not None:
            await self.host.close()
        else:
            await self.stored.journal.close()

    def stop(self) -> None:
        """End all streams, and stop runs after their current step."""
        self.follower.close()
        if self.appointments is not None:
            self.appointments.stop()
        if self.host is not None:
            self.host.stop()
