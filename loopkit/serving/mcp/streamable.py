"""A server over streamable HTTP, for both protocols of MCP, behind the gate of every server.

Only messages that are strict JSON of bounded size and depth reach the MCP library.
"""

from __future__ import annotations

import json
import logging
import socket
from collections.abc import Callable

from loopkit.serving.access import Access
from loopkit.serving.http.answers import BadRequest, bug_teller, error_answer
from loopkit.serving.http.bodies import MOST_BYTES, body_of, decode
from loopkit.serving.http.gate import Gate
from loopkit.serving.http.library import (
    ASGIApp,
    Message,
    Receive,
    Request,
    Response,
    Route,
    Scope,
    Send,
    Starlette,
)
from loopkit.serving.http.server import HttpServer
from loopkit.serving.mcp.library import StreamableHTTPSessionManager, types
from loopkit.serving.mcp.server import server_of
from loopkit.serving.tools.toolbox import Toolbox
from loopkit.text.json_text import NoJson, parse_json

PATH = "/mcp"
MOST_SESSIONS = 1_000
"""Open sessions of clients of the older protocol."""
SESSION_LASTS_S = 1_800.0


class StreamableServer(HttpServer):
    """Serves the tools of a toolbox until it is told to stop; open calls are abandoned then."""

    def __init__(
        self,
        toolbox: Toolbox,
        access: Access,
        say: Callable[[str], None],
        stop_work: Callable[[], None],
        session_lasts_s: float = SESSION_LASTS_S,
    ) -> None:
        """`session_lasts_s` is how long an idle session lasts."""
        # Its messages are about clients, who could fill a log.
        logging.getLogger("mcp").setLevel(logging.CRITICAL)
        self._sessions = StreamableHTTPSessionManager(
            server_of(toolbox),
            session_idle_timeout=session_lasts_s,
            max_request_body_size=MOST_BYTES,
            max_sessions=MOST_SESSIONS,
        )
        routed = Starlette(
            routes=[Route(PATH, _Strict(self._sessions.handle_request))],
            exception_handlers={404: _tell_place, Exception: bug_teller(say)},
        )
        super().__init__(Gate(routed, access), stop_work)

    async def serve_on(self, listening: socket.socket) -> None:
        async with self._sessions.run():
            await super().serve_on(listening)


async def _tell_place(_: Request, __: Exception) -> Response:
    """The answer to every other path; clients often request the address without a path."""
    return error_answer(404, f"there is nothing here: MCP is spoken at {PATH}")


class _Strict:
    """Passes on only messages that every JSON parser reads in the same way."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] == "POST":
            try:
                body = await _message_of(Request(scope, receive))
            except BadRequest as refused:
                await _refusal(refused)(scope, receive, send)
                return
            receive = _again(body, receive)
        await self._app(scope, receive, send)


async def _message_of(request: Request) -> bytes:
    body = await body_of(request, MOST_BYTES)
    value = parse_json(decode(body))
    if isinstance(value, NoJson):
        raise BadRequest(f"the message is not JSON: {value.reason}")
    return body


def _again(body: bytes, receive: Receive) -> Receive:
    """A `receive` that delivers a body again that has been read."""
    first: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive_again() -> Message:
        return first.pop() if first else await receive()

    return receive_again


def _refusal(refused: BadRequest) -> Response:
    """A refusal that clients of MCP show."""
    error = {"code": types.PARSE_ERROR, "message": str(refused)}
    message = {"jsonrpc": "2.0", "id": None, "error": error}
    return Response(json.dumps(message), refused.status, media_type="application/json")
