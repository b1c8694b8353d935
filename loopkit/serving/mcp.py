"""Servers of MCP over a toolbox: on standard input and output with one client, and over HTTP.

Both speak both protocols, with a handshake and without state. Over HTTP a server is behind the gate
of every server, and only messages that are strict JSON of bounded size reach the MCP library.
"""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import sys
import traceback
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from errno import EMSGSIZE
from io import TextIOWrapper
from typing import Any

from loopkit import __version__
from loopkit.serving.access import Access
from loopkit.serving.http.answers import MOST_BYTES, BadRequest, bug_teller, error_answer, text_of
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
from loopkit.serving.mcp_library import (
    MODERN_PROTOCOL_VERSIONS,
    AsyncFile,
    MCPError,
    RequestStateBoundary,
    RequestStateSecurity,
    Server,
    ServerRequestContext,
    StreamableHTTPSessionManager,
    run_sync,
    stdio_server,
    types,
)
from loopkit.serving.tools.arguments import (
    Caller,
    CallRefused,
    ServedTool,
    Toolbox,
    UserAsked,
    UserReply,
)
from loopkit.text import one_line
from loopkit.text.json_text import NoJson, parse_json

LONGEST_MESSAGE = 32_000_000
"""Characters of a message of the client."""


async def serve(toolbox: Toolbox) -> None:
    """Answer a client until it disconnects; its open calls are abandoned then.

    Meanwhile, everything that is printed goes to standard error. Raises OSError if the client no
    longer reads answers, or if a message is too long.
    """
    server = server_of(toolbox)
    try:
        messages = _Lines(TextIOWrapper(sys.stdin.buffer, encoding="utf-8", errors="replace"))
        async with stdio_server(stdin=messages) as (requests, replies):
            await server.run(requests, replies, server.create_initialization_options())
    except ExceptionGroup as failed:
        lost, others = failed.split(OSError)
        if lost is None or others is not None:
            raise
        raise OSError(None, _first(lost).strerror) from failed


class _Lines(AsyncFile[str]):
    """Lines of bounded length: a client that never ends one would fill the memory."""

    async def readline(self) -> str:
        line = await run_sync(self.wrapped.readline, LONGEST_MESSAGE)
        if len(line) == LONGEST_MESSAGE:
            raise OSError(EMSGSIZE, f"a message of more than {LONGEST_MESSAGE:,} characters")
        return line


def _first(failed: BaseExceptionGroup[OSError]) -> OSError:
    inner = failed.exceptions[0]
    return _first(inner) if isinstance(inner, BaseExceptionGroup) else inner


NAME = "loopkit"
REPLY = "reply"
"""The id of the form: a user is asked for one at a time."""
MOST_UNREAD = 1_000
"""How many notifications of a call may wait for the client; the oldest are dropped."""
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
            async with _report_progress(context) as teller:
                return await _answer(toolbox, context, called, teller)
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
    teller: _Teller | None,
) -> Answer:
    """Call a tool; each time that the user is asked, call it again with the reply."""
    about = context.session.client_params
    reply = _reply_in_call(called)
    program = one_line(about.client_info.name, NAME_WIDTH) if about is not None else ""
    program = program or "a client"
    tell = teller.tell if teller is not None else None
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


class _Teller:
    """Tells what happens in a call as fast as its client reads; the call does not wait for it."""

    def __init__(self, context: ServerRequestContext[Any]) -> None:
        self._context = context
        self._unread: asyncio.Queue[tuple[int, str] | None] = asyncio.Queue(MOST_UNREAD)
        self._told = 0

    def tell(self, message: str) -> None:
        self._told += 1
        self._enqueue((self._told, message))

    def end(self) -> None:
        self._enqueue(None)

    def _enqueue(self, news: tuple[int, str] | None) -> None:
        if self._unread.full():
            self._unread.get_nowait()
        self._unread.put_nowait(news)

    async def send(self) -> None:
        while (news := await self._unread.get()) is not None:
            number, message = news
            await self._context.session.report_progress(number, None, message)


@asynccontextmanager
async def _report_progress(context: ServerRequestContext[Any]) -> AsyncIterator[_Teller | None]:
    """Send the progress of a call, all of it inside the context, if its client asks for it."""
    if (context.meta or {}).get("progress_token") is None:
        yield None
        return
    teller = _Teller(context)
    sending = asyncio.create_task(teller.send())
    try:
        yield teller
        teller.end()
        await sending
    finally:
        sending.cancel()


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
                error = {"code": types.PARSE_ERROR, "message": str(refused)}
                text = json.dumps({"jsonrpc": "2.0", "id": None, "error": error})
                answer = Response(text, refused.status, media_type="application/json")
                await answer(scope, receive, send)
                return
            receive = _again(body, receive)
        await self._app(scope, receive, send)


async def _message_of(request: Request) -> str:
    body = await text_of(request, MOST_BYTES)
    if isinstance(value := parse_json(body), NoJson):
        raise BadRequest(f"the message is not JSON: {value.reason}")
    return body


def _again(body: str, receive: Receive) -> Receive:
    first: list[Message] = [{"type": "http.request", "body": body.encode(), "more_body": False}]

    async def receive_again() -> Message:
        return first.pop() if first else await receive()

    return receive_again
