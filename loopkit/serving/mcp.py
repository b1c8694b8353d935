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
    from mcp import MCPError, types
    from mcp.server import Server, ServerRequestContext
    from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
    from mcp.server.stdio import stdio_server
    from mcp.server.streamable_http_manager import (
        StreamableHTTPASGIApp,
        StreamableHTTPSessionManager,
    )
    from mcp_types.version import MODERN_PROTOCOL_VERSIONS
except ImportError as error:
    raise ImportError(
        f"MCP needs a library that is not installed: pip install '{DISTRIBUTION}[mcp]'"
    ) from error

from loopkit.serving.access import Access
from loopkit.serving.http.answers import MOST_BYTES, bug_teller, error_answer
from loopkit.serving.http.gate import Gate
from loopkit.serving.http.library import (
    ClientDisconnect,
    Request,
    Response,
    Route,
    Starlette,
)
from loopkit.serving.http.server import HttpServer
from loopkit.serving.tools.arguments import (
    Caller,
    CallRefused,
    ServedTool,
    Tell,
    Toolbox,
    UserAsked,
    UserReply,
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
REPLY = "reply"
"""The id of the form: a user is asked for one at a time."""
ANSWERED_WITHIN_S = 30 * 24 * 3600.0
"""How long the user of a client without a handshake may take for an answer."""
NAME_WIDTH = 60
LONGEST_ANSWER = 1_000_000
"""Bytes of an answer: clients of the `mcp` package read at most 1,048,576 bytes of an event."""

Answer = types.CallToolResult | types.InputRequiredResult


def server_of(toolbox: Toolbox) -> Server[Any]:
    """A server that offers the tools of a toolbox, over any transport."""

    async def list_tools(
        _: ServerRequestContext[Any], __: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[_tool(offered) for offered in toolbox.offered])

    async def call_tool(
        context: ServerRequestContext[Any], called: types.CallToolRequestParams
    ) -> Answer:
        try:
            return await _answer(toolbox, context, called)
        except CallRefused as refused:
            return _error_result(f"error: {refused}")
        except MCPError:
            raise
        except Exception as bug:  # noqa: BLE001 - what it says is for whoever runs the server
            traceback.print_exception(bug)
            return _error_result("internal error: this is a bug in loopkit; its server printed it")

    server: Server[Any] = Server(
        NAME,
        version=__version__,
        instructions=toolbox.instructions,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )
    # A client without a handshake must return the state that it got for the same call.
    sealing = RequestStateSecurity.ephemeral(ttl=ANSWERED_WITHIN_S)
    server.middleware.append(RequestStateBoundary(sealing, default_audience=NAME))
    return server


async def _answer(
    toolbox: Toolbox,
    context: ServerRequestContext[Any],
    called: types.CallToolRequestParams,
) -> Answer:
    """Call a tool; each time that the user is asked, call it again with the reply."""
    about = context.session.client_params
    reply = _reply_in_call(called)
    program = one_line(about.client_info.name, NAME_WIDTH) if about is not None else ""
    program = program or "a client"
    tell = _tell_of(context)
    user = f"the user of {program}"
    while True:
        caller = Caller(user, _may_be_asked(context), tell, reply, program)
        result = await toolbox.call(called.name, called.arguments or {}, caller)
        if not isinstance(result, UserAsked):
            # Many clients show a model only the text.
            text = json.dumps(result, ensure_ascii=False)
            _refuse_longest(text, result)
            shown = [types.TextContent(text=text)]
            return types.CallToolResult(content=shown, structured_content=result)
        if context.protocol_version in MODERN_PROTOCOL_VERSIONS:
            form = types.ElicitRequestFormParams(
                message=result.message, requested_schema=dict(result.schema)
            )
            return types.InputRequiredResult(
                input_requests={REPLY: types.ElicitRequest(params=form)},
                request_state=result.matter,
            )
        reply = await _ask_user(context, result)


def _refuse_longest(text: str, result: Mapping[str, Any]) -> None:
    """Raises CallRefused for an answer so long that clients would close the connection."""
    if (size := len(json.dumps([text, result]))) > LONGEST_ANSWER:
        fault = f"what was asked is done, but the answer has {size:,} bytes, too many for clients"
        raise CallRefused(f"{fault}; a person sees everything with `loopkit runs ls` and `show`")


def _reply_in_call(called: types.CallToolRequestParams) -> UserReply | None:
    responses = called.input_responses or {}
    if called.request_state is None:
        if responses:
            raise MCPError(types.INVALID_PARAMS, "inputResponses without their requestState")
        return None
    reply = responses.get(REPLY)
    if not isinstance(reply, types.ElicitResult):
        return UserReply(called.request_state)
    return UserReply(called.request_state, reply.action, reply.content or {})


async def _ask_user(context: ServerRequestContext[Any], asked: UserAsked) -> UserReply:
    try:
        reply = await context.session.elicit_form(
            asked.message, dict(asked.schema), related_request_id=context.request_id
        )
    except (MCPError, ValueError):
        # It can't show the form after all, or its answer is not valid.
        return UserReply(asked.matter)
    return UserReply(asked.matter, reply.action, reply.content or {})


def _may_be_asked(context: ServerRequestContext[Any]) -> bool:
    able = context.session.client_capabilities
    if able is None or able.elicitation is None:
        return False
    is_modern = context.protocol_version in MODERN_PROTOCOL_VERSIONS
    if not is_modern and not context.session.can_send_request:
        # Only the answer to its call can be sent.
        return False
    # Earlier versions know only forms, and name no kind.
    return able.elicitation.form is not None or able.elicitation.url is None


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
