"""A server of one application, from the first connection to the last; signals are its caller's."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from loopkit.serving.http.connections import Connection, Room
from loopkit.serving.http.library import ASGIApp, Config, Server

BACKLOG = 512
"""Connections that wait to be accepted."""
AT_ONCE = 16
"""Connections that are accepted before it is checked whether there is room for them."""
TICKS = 100
"""The interval between two checks of connections, in tenths of a second."""
LONGEST_END_S = 1
"""How long clients have to finish reading when the server ends."""


class HttpServer(Server):
    """Serves an application until it is told to stop."""

    def __init__(
        self, app: ASGIApp, stop_work: Callable[[], None], room: Room | None = None
    ) -> None:
        """`stop_work` lets the application finish its current work."""
        config = Config(
            app,
            http=type("OfThisServer", (Connection,), {"room": room or Room()}),
            ws="none",
            lifespan="off",
            log_config=None,
            # Paths and clients are not logged, and the application reports its errors itself.
            log_level="critical",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            backlog=AT_ONCE,
            timeout_graceful_shutdown=LONGEST_END_S,
        )
        super().__init__(config)
        self._stop_work = stop_work
        self._closing: set[asyncio.Transport] = set()
        """The connections that were closing at the last check."""
        self.stopping = False

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals alone."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for listening in sockets or ():
            listening.listen(BACKLOG)

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
        """Stop serving, and stop runs after their current step."""
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
