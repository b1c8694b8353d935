"""A server of one application, with its connections, and the site that its pages and API share.

If there are too many connections, requests are told to come later. Signals are the caller's.
"""

from __future__ import annotations

import asyncio
import resource
import socket
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from loopkit.drive.stored_runs import StoredRuns
from loopkit.journal.journal import open_journal
from loopkit.language.load import Loaded
from loopkit.serving.access import Access
from loopkit.serving.host import Host
from loopkit.serving.http.answers import Follower
from loopkit.serving.http.library import ASGIApp, Config, Server
from loopkit.serving.metrics import Metrics
from loopkit.views.page.run_page import RunPage
from loopkit.views.run_view import RunViews

T = TypeVar("T")
TICKS = 100
"""The interval between two checks of connections, in tenths of a second."""
LONGEST_END_S = 1


class HttpServer(Server):
    def __init__(
        self, app: ASGIApp, stop_work: Callable[[], None], most: int | None = None
    ) -> None:
        """`stop_work` lets the application finish its work.

        With more than `most` connections, a request is answered with the status 503.
        """
        config = Config(
            app,
            http="h11",
            ws="none",
            lifespan="off",
            log_config=None,
            # Paths and clients are not logged, and the application reports its errors itself.
            log_level="critical",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            # It counts the connection of the request itself.
            limit_concurrency=(most or most_connections()) + 1,
            timeout_graceful_shutdown=LONGEST_END_S,
        )
        super().__init__(config)
        self._stop_work = stop_work
        self._closing: set[asyncio.Transport] = set()
        """The connections that were closing at the last check."""
        self.stopping = False

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def on_tick(self, counter: int) -> bool:
        """Abort connections that have been closing since the last check."""
        if counter % TICKS == 0:
            every = self.server_state.connections
            closing = {each.transport for each in every if each.transport.is_closing()}
            for transport in closing & self._closing:
                transport.abort()
            self._closing = closing
        return await super().on_tick(counter)

    def stop(self) -> None:
        self.stopping = True
        self._stop_work()
        self.should_exit = True

    async def serve_on(self, listening: socket.socket) -> None:
        """Serve on a socket that listens, until stopped; every connection is closed then."""
        # A response in two pieces would wait 40 ms for a word of the client's kernel. asyncio sees
        # to that itself, but only for sockets that it has made.
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            await self.serve([listening])
        finally:
            # What a client does not read would keep its connection open.
            for connection in list(self.server_state.connections):
                connection.transport.abort()
            await asyncio.sleep(0)


MOST_CONNECTIONS = 2_000


def most_connections() -> int:
    """How many connections the limit on open files allows; half of the files are for runs."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files == resource.RLIM_INFINITY:
        return MOST_CONNECTIONS
    return max(1, min(MOST_CONNECTIONS, files // 2))


_THREAD = ThreadPoolExecutor(1, "pages")
"""In which pages are made: an engine can be used by one thread only."""


async def run_in_page_thread(make: Callable[[], T]) -> T:
    return await asyncio.get_running_loop().run_in_executor(_THREAD, make)


@dataclass
class Site:
    stored: StoredRuns
    host: Host | None
    """None if the site is read-only."""
    access: Access
    say: Callable[[str], None]
    machines: Sequence[Loaded] = ()
    """The machines that can be started: those that were named when the server was started."""
    longest_send_s: float = 20.0
    """The time that a client may take to read a piece of a stream."""
    most: int | None = None
    """The number of connections, if it is not what open files allow."""
    runs: RunViews[RunPage] = field(init=False)
    follower: Follower = field(init=False)
    metrics: Metrics = field(init=False)
    _following: asyncio.Task[None] | None = None

    def __post_init__(self) -> None:
        self.runs = RunViews(self.stored, RunPage, run_in_page_thread)
        self.follower = Follower(self.stored.journal)
        self.metrics = Metrics(self.stored.journal, follows=True)

    @classmethod
    def open(
        cls,
        place: Path | str,
        access: Access,
        say: Callable[[str], None],
        machines: Sequence[Loaded] = (),
        *,
        may_answer: bool = False,
    ) -> Site:
        """A site over the journal in a place; it writes only with `may_answer`.

        Raises NotRunnable and JournalError.
        """
        if may_answer:
            host = Host(place, machines, say)
            return cls(host.app, host, access, say, machines)
        return cls(StoredRuns(open_journal(place, readonly=True)), None, access, say, machines)

    async def __aenter__(self) -> Site:
        self._following = asyncio.create_task(self.follower.run())
        if self.host is not None:
            self.host.keep_appointments()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.stop()
        if self._following is not None:
            self._following.cancel()
            await asyncio.gather(self._following, return_exceptions=True)
        if self.host is not None:
            await self.host.close()
        else:
            await self.stored.journal.close()

    def may_start(self, machine: str) -> bool:
        return self.host is not None and machine in self.host.machines

    def stop(self) -> None:
        """End all streams, and stop runs after their current step."""
        self.follower.close()
        if self.host is not None:
            self.host.stop()
