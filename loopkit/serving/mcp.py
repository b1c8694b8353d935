"""Servers of MCP over a toolbox: on standard input and output with one client, and over HTTP.

Both speak both protocols, with a handshake and without state. Over HTTP a server is behind the gate
of every server, and only messages of bounded size reach the MCP library.
"""

from __future__ import annotations

import json
import logging
import socket
import traceback
from collections.abc import Callable, Mapping
from itertools import count
from typing import Any

from loopkit import DISTRIBUTION, __version__

try:
    from mcp import types
    from mcp.server import Server, ServerRequestContext
    from mcp.server.stdio import stdio_server
    from mcp.server.streamable_http_manager import (
        StreamableHTTPASGIApp,
        StreamableHTTPSessionManager,
    )
except ImportError as error:
    raise ImportError(
        f"MCP needs a library that is not installed: pip install '{DISTRIBUTION}[mcp]'"
    ) from error

from loopkit.serving.access import Access
from loopkit.serving.http.answers import MOST_BYTES, bug_teller, error_answer
from loopkit.serving.http.gate import Gate
from loopkit.serving.http.library import ClientDisconnect, Request, Response, Route, Starlette
from loopkit.serving.http.server import HttpServer
from loopkit.serving.tools.arguments import (
    Caller,
    CallRefused,
    ServedTool,
    Tell,
    Toolbox,
)
from loopkit.text import one_line


async def serve(toolbox: Toolbox) -> None:
    """Answer a client until it disconnects; its open calls are abandoned then.

    Meanwhile, everything that is printed goes to standard error. Raises OSError if the client no
    longer reads answers.
    """
    server = server_of(toolbox)
    try:
        async with stdio_server() as (requests, replies):
            await server.run(requests, replies, server.create_initialization_options())
    except ExceptionGroup as failed:
        lost, others = failed.split(OSError)
        if lost is None or others is not None:
            raise
        raise OSError(None, _first(lost).strerror) from failed


def _first(failed: BaseExceptionGroup[OSError]) -> OSError:
    inner = failed.exceptions[0]
    return _first(inner) if isinstance(inner, BaseExceptionGroup) else inner


NAME = "loopkit"
NAME_WIDTH = 60
LONGEST_ANSWER = 1_000_000
"""Bytes of an answer: clients of the `mcp` package read at most 1,048,576 bytes of an event."""


def server_of(toolbox: Toolbox) -> Server[Any]:
    """A server that offers the tools of a toolbox, over any transport."""

    async def list_tools(
        _: ServerRequestContext[Any], __: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[_tool(offered) for offered in toolbox.offered])

    async def call_tool(
        context: ServerRequestContext[Any], called: types.CallToolRequestParams
    ) -> types.CallToolResult:
        try:
            about = context.session.client_params
            program = one_line(about.client_info.name, NAME_WIDTH) if about is not None else ""
            caller = Caller(_tell_of(context), program or "a client")
            result = await toolbox.call(called.name, called.arguments or {}, caller)
            # Many clients show a model only the text.
            text = json.dumps(result, ensure_ascii=False)
            _refuse_longest(text, result)
            shown = [types.TextContent(text=text)]
            return types.CallToolResult(content=shown, structured_content=result)
        except CallRefused as refused:
            return _error_result(f"error: {refused}")
        except Exception as bug:  # noqa: BLE001 - what it says is for whoever runs the server
            traceback.print_exception(bug)
            return _error_result("internal error: this is a bug in loopkit; its server printed it")

    return Server(
        NAME,
        version=__version__,
        instructions=toolbox.instructions,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def _refuse_longest(text: str, result: Mapping[str, Any]) -> None:
    """Raises CallRefused for an answer so long that clients would close the connection."""
    if (size := len(json.dumps([text, result]))) > LONGEST_ANSWER:
        fault = f"what was asked is done, but the answer has {size:,} bytes, too many for clients"
        raise CallRefused(f"{fault}; a person sees everything with `loopkit runs ls` and `show`")


def _tell_of(context: ServerRequestContext[Any]) -> Tell | None:
    """What tells a client the progress of its call; None if it does not ask for that."""
    if (context.meta or {}).get("progress_token") is None:
        return None
    numbers = count(1)

    async def tell(message: str) -> None:
        await context.session.report_progress(next(numbers), None, message)

    return tell


def _error_result(why: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=why)], is_error=True)


def _tool(offered: ServedTool) -> types.Tool:
    hints = types.ToolAnnotations(read_only_hint=True) if offered.changes_nothing else None
    return types.Tool(
        name=offered.name,
        description=offered.description,
        input_schema=dict(offered.arguments),
        annotations=hints,
    )


PATH = "/mcp"
MOST_SESSIONS = 1_000
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
        # Its messages are about clients, who could fill a log.
        logging.getLogger("mcp").setLevel(logging.CRITICAL)
        self._sessions = StreamableHTTPSessionManager(
            server_of(toolbox),
            session_idle_timeout=session_lasts_s,
            max_request_body_size=MOST_BYTES,
            max_sessions=MOST_SESSIONS,
        )
        routed = Starlette(
            routes=[Route(PATH, StreamableHTTPASGIApp(self._sessions))],
            exception_handlers={
                404: _tell_place,
                ClientDisconnect: _tell_nobody,
                Exception: bug_teller(say),
            },
        )
        super().__init__(Gate(routed, access), stop_work)

    async def serve_on(self, listening: socket.socket) -> None:
        async with self._sessions.run():
            await super().serve_on(listening)


async def _tell_place(_: Request, __: Exception) -> Response:
    """The answer to every other path; clients often request the address without a path."""
    return error_answer(404, f"there is nothing here: MCP is spoken at {PATH}")


async def _tell_nobody(_: Request, __: Exception) -> Response:
    return error_answer(400, "the client went away")
