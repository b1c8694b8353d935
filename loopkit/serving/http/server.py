"""The server: the application of a site, and its life from the first request to the last."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from loopkit.serving.http.answers import STATUS, BadRequest, bug_teller, tell_http, tell_known
from loopkit.serving.http.gate import Gate
from loopkit.serving.http.library import (
    ASGIApp,
    BaseRoute,
    Config,
    HTTPException,
    RedirectResponse,
    Request,
    Response,
    Route,
    Server,
    Starlette,
)
from loopkit.serving.http.openapi import TABLE, api_routes
from loopkit.serving.http.signing_in import sign_in_routes
from loopkit.serving.http.site import Site
from loopkit.serving.http.table import routes

MOST_CONNECTIONS = 2_000
TICKS = 100
"""Of a tenth of a second, between two looks at connections."""
LONGEST_END_S = 1
"""How long clients have to read what they are being sent when the server ends."""


def application(site: Site, pages: Sequence[BaseRoute] = ()) -> ASGIApp:
    """Everything that a server answers. `pages` are those of a viewer, which has `/`, if any."""
    known = [*STATUS, BadRequest]
    app = Starlette(
        routes=[
            *sign_in_routes(site.access),
            *api_routes(),
            *routes(site, TABLE),
            *(pages or [Route("/", _to_api, methods=["GET"])]),
        ],
        exception_handlers={
            HTTPException: tell_http,
            Exception: bug_teller(site.say),
            **dict.fromkeys(known, tell_known),
        },
    )
    return Gate(app, site.access)


async def _to_api(_: Request) -> Response:
    return RedirectResponse("/api", 303)


class SiteServer(Server):
    """Serves a site until it is told to stop; signals are its caller's."""

    def __init__(self, site: Site, pages: Sequence[BaseRoute] = ()) -> None:
        config = Config(
            application(site, pages),
            http="h11",
            ws="none",
            lifespan="off",
            log_config=None,
            # Paths and clients are nobody's business, and errors are said by the application.
            log_level="critical",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            limit_concurrency=MOST_CONNECTIONS,
            timeout_graceful_shutdown=LONGEST_END_S,
        )
        super().__init__(config)
        self._site = site
        self._closing: set[asyncio.Transport] = set()
        """Of connections that were about to be closed when they were last looked at."""
        self.stopping = False

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals alone."""
        yield

    async def on_tick(self, counter: int) -> bool:
        """Let go of clients that were cut off and do not read the rest, either."""
        if counter % TICKS == 0:
            every = self.server_state.connections
            closing = {each.transport for each in every if each.transport.is_closing()}
            for transport in closing & self._closing:
                transport.abort()
            self._closing = closing
        return await super().on_tick(counter)

    def stop(self) -> None:
        """End, and stop runs in hand after their step."""
        self.stopping = True
        self._site.stop()
        self.should_exit = True

    async def serve_on(self, listening: socket.socket) -> None:
        """Serve on a socket that listens, until stopped; every connection is closed then."""
        try:
            await self.serve([listening])
        finally:
            # What a client does not read would keep its connection open.
            for connection in list(self.server_state.connections):
                connection.transport.abort()
            await asyncio.sleep(0)
