"""The client of a server, in a process of its own: `python -m loopkit.outside.mcp.session`.

Its stdin is a socket, on which it first writes an empty line, when it can be asked. Then it is
asked in lines of JSON and answers each with one: first where the server is, then what it offers or
a call of a tool. An answer has what was asked for, or a `fault` and whether that is `transient`.
The end of the input closes the connection.

The client has no timeouts of its own. One task has to enter and to leave it, and calls from that
task would be cancelled where a server on the network dies.

The client's own transport gives the program a session of its own, so that it would outlive a
worker that is killed, and reads a long line in a time that grows with its square.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import os
import socket
from asyncio import FIRST_COMPLETED
from collections import deque
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from difflib import get_close_matches
from functools import lru_cache, partial
from typing import Any, TypeVar

import anyio
import httpx2
import mcp
import mcp_types as types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from jsonschema import Draft202012Validator, FormatChecker, SchemaError
from jsonschema.validators import validator_for
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter
from mcp_types.methods import parse_server_result
from mcp_types.version import LATEST_MODERN_VERSION
from pydantic import TypeAdapter, ValidationError

from loopkit.outside.mcp.connection import ServerFailed
from loopkit.text.json_text import text_or_json

T = TypeVar("T")
MAX_PAGES = 100
_REFUSED = {401: "it wants to know who asks", 403: "it lets nobody in who asks like this"}
_GONE = {404, 408, 425, 429}
"""Statuses after which a new connection may help, such as that of an ended session."""


class Session:
    """One connection, held open by a task of its own."""

    def __init__(self) -> None:
        self._heard = Heard()
        self._ready: asyncio.Future[mcp.Client] = asyncio.get_running_loop().create_future()
        self._closing = asyncio.Event()
        self._owner: asyncio.Task[None] | None = None

    async def connect(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        """Connect with a `program` or a `website`."""
        kind, connect = ("program", program) if "program" in request else ("website", website)
        client = mcp.Client(connect(request[kind], self._heard), cache=None)
        self._owner = asyncio.create_task(self._hold(client))
        await self._within(request["timeout_s"], self._wait_for_client(), "it did not connect")
        return {"connected": True}

    async def _wait_for_client(self) -> mcp.Client:
        return await asyncio.shield(self._ready)

    async def _hold(self, client: mcp.Client) -> None:
        async with client:
            self._ready.set_result(client)
            await self._closing.wait()

    async def close(self) -> None:
        self._closing.set()
        if self._owner is not None:
            with suppress(Exception):
                await self._owner

    async def list_tools(self, names: Sequence[str] | None, timeout_s: float) -> dict[str, Any]:
        offered = await self._within(timeout_s, self._every_tool(), "it did not say what it offers")
        if names is None:
            left_out = [{"name": one, "fault": why} for one, why in self._heard.malformed.items()]
            return {"tools": [*map(offer, offered.values()), *left_out]}
        return {"tools": [offer(self._tool(name, offered)) for name in names]}

    def _tool(self, name: str, offered: Mapping[str, types.Tool]) -> types.Tool:
        if fault := self._heard.malformed.get(name):
            raise ServerFailed(f"its tool `{name}` is malformed: {fault}", transient=False)
        if name not in offered:
            raise ServerFailed(unknown(name, list(offered)), transient=False)
        return offered[name]

    async def _every_tool(self) -> dict[str, types.Tool]:
        client, offered, cursor = await self._wait_for_client(), dict[str, types.Tool](), None
        self._heard.malformed = {}
        for _ in range(MAX_PAGES):
            page = await client.list_tools(cursor=cursor)
            offered |= {tool.name: tool for tool in page.tools}
            cursor = page.next_cursor
            if cursor is None:
                break
        return offered

    async def call(
        self, call: str, arguments: dict[str, Any], digest: str, key: str, timeout_s: float
    ) -> dict[str, Any]:
        """The result of a tool, if it still has this digest; the server is told the call's key."""
        within = f"`{call}` gave no answer"
        return await self._within(timeout_s, self._call(call, arguments, digest, key), within)

    async def _call(
        self, name: str, arguments: dict[str, Any], digest: str, key: str
    ) -> dict[str, Any]:
        tool = self._tool(name, await self._every_tool())
        if (now := offer(tool)["digest"]) != digest:
            raise ServerFailed(
                f"its tool `{name}` is no longer what it was: it was {digest}, and is {now} now",
                transient=False,
            )
        if wrong := _wrong(tool.input_schema, arguments):
            return answer(wrong, is_error=True)
        client = await self._wait_for_client()
        try:
            meta: Any = {"loopkit/call": key} if key else None
            given = await client.session.call_tool(
                name, arguments, meta=meta, allow_input_required=True
            )
        except MCPError as error:
            if self._is_lost(error):
                raise
            return answer(error.message, is_error=True)
        except RuntimeError as error:
            return answer(f"what it gave is not what it declares: {error}", is_error=True)
        except ValidationError as error:
            return answer(f"what it gave is malformed: {in_words(error)}", is_error=True)
        if isinstance(given, types.InputRequiredResult):
            return answer(_question(given), is_error=True)
        return result(given)

    def _is_lost(self, error: MCPError) -> bool:
        """Whether an error is of the connection, and not an answer of the server."""
        status = self._heard.status
        is_closed = error.code == types.CONNECTION_CLOSED
        return is_closed or status in _REFUSED or status in _GONE or status >= 500

    async def _within(self, timeout_s: float, work: Coroutine[Any, Any, T], late: str) -> T:
        """The result of some work; raises Fault if it takes too long or the connection ends."""
        if self._owner is None:
            raise ServerFailed("nobody has connected yet", transient=False)
        self._heard.status = 0
        task = asyncio.create_task(work)
        try:
            await asyncio.wait({task, self._owner}, timeout=timeout_s, return_when=FIRST_COMPLETED)
            if not task.done() and self._owner.done():
                # A call learns in the same moment that its connection is gone.
                await asyncio.wait({task}, timeout=0.1)
            return await self._outcome(task, f"{late} within {timeout_s:g} s")
        except MCPError as error:
            raise self._connection_fault(error) from error
        except ValidationError as error:
            fault = f"its answer is malformed: {in_words(error)}"
            raise ServerFailed(fault, transient=False) from error
        finally:
            task.cancel()

    async def _outcome(self, task: asyncio.Task[T], late: str) -> T:
        if task.done():
            return task.result()
        if self._owner is not None and self._owner.done():
            raise self._connection_fault(self._owner.exception())
        heard = str(self._heard)
        raise ServerFailed(f"{late}; {heard}" if heard else late, transient=True)

    def _connection_fault(self, error: BaseException | None) -> ServerFailed:
        """The fault that says why the connection ended."""
        cause = error
        while isinstance(cause, BaseExceptionGroup):
            cause = cause.exceptions[0]
        heard, status = str(self._heard), self._heard.status
        if isinstance(cause, FileNotFoundError | PermissionError | NotADirectoryError):
            reason = f"its program was not started: {cause.filename}: {cause.strerror}"
            return ServerFailed(reason, transient=False)
        if status in _REFUSED:
            reason = f"{_REFUSED[status]} (HTTP status {status}); see `headers:`"
            return ServerFailed(reason, transient=False)
        if status >= 400:
            heard = f"HTTP status {status}"
        reason = heard or f"{type(cause).__name__}: {cause}"[:1000]
        is_gone = status < 400 or status >= 500 or status in _GONE
        return ServerFailed(f"the connection was lost: {reason}", transient=is_gone)


def _wrong(schema: dict[str, Any], arguments: dict[str, Any]) -> str:
    try:
        errors = list(Draft202012Validator(schema).iter_errors(arguments))[:10]
    except Exception:  # noqa: BLE001 - a schema that can't be used is the server's own matter
        return ""
    return "\n".join(f"{error.json_path}: {error.message:.300}" for error in errors)


def _question(given: types.InputRequiredResult) -> str:
    requests = (given.input_requests or {}).values()
    asked = [getattr(request.params, "message", "") for request in requests]
    messages = "; ".join(str(text) for text in asked if text)
    return f"it wants to ask a person, which is not possible here: {messages or 'no question'}"[
        :2_000
    ]


LONGEST_MESSAGE = 32_000_000
"""Bytes of one message."""
MAX_GARBAGE = 1_000
"""The number of lines that are not messages after which reading stops."""
LEAVING_S = 1.0
"""How long the program may take to end once its stdin is closed."""
_PRINTED = 2_000


class Heard:
    """Facts about a server besides its messages, for the message that it failed."""

    def __init__(self) -> None:
        self._stderr: deque[bytes] = deque(maxlen=20)
        self.garbage = ""
        """The first line on stdout that is not a message."""
        self.fault = ""
        """The reason why its messages are not read any more."""
        self.exit_code: int | None = None
        self.status = 0
        """The status of the last response over HTTP."""
        self.malformed: dict[str, str] = {}
        """What is wrong with the malformed tools of the last list, by their names."""
        self._version = LATEST_MODERN_VERSION  # the handshake that states one is an older way

    async def listen(self, stream: asyncio.StreamReader | None) -> None:
        """Keep the end of the program's stderr."""
        while stream is not None and (data := await stream.read(_PRINTED)):
            self._stderr.append(data)

    def mend(self, result: dict[str, Any]) -> None:
        """Leave out of a result what is malformed: tools of a list, or what a call gave."""
        self._version = result.get("protocolVersion", self._version)
        if isinstance(tools := result.get("tools"), list):
            result["tools"] = [tool for tool in tools if self._is_sound(tool, result)]
        elif "capabilities" not in result and result.get("resultType") != "input_required":
            given = result.get("content") or []
            result["content"] = [*map(_block, given if isinstance(given, list) else [given])]

    def _is_sound(self, tool: Any, result: Mapping[str, Any]) -> bool:
        try:
            parse_server_result("tools/list", self._version, {**result, "tools": [tool]})
            schemas = (tool.get(key) or {} for key in ("inputSchema", "outputSchema"))
            fault = next(filter(None, map(_schema_fault, map(json.dumps, schemas))), "")
        except ValidationError as error:
            fault = in_words(error).replace("`tools.0.", "`")
        if fault:
            name = tool.get("name") if isinstance(tool, dict) else None
            self.malformed[name if isinstance(name, str) else "?"] = fault
        return not fault

    def __str__(self) -> str:
        """The program's end and its output, in words."""
        facts = [self.fault] if self.fault else []
        if self.exit_code is not None and not self.fault:
            code = self.exit_code
            facts.append(
                f"ended with exit code {code}" if code >= 0 else f"ended by signal {-code}"
            )
        if self.garbage:
            facts.append(f"on stdout, where only messages belong, it printed {self.garbage!r}")
        if printed := b"".join(self._stderr).decode(errors="replace").strip()[-_PRINTED:]:
            facts.append(f"it printed:\n{printed}")
        return "; ".join(facts)


class _Mended:
    """A stream of messages, whose results are mended before the client judges them.

    The client refuses a whole list for one malformed tool.
    """

    def __init__(self, stream: Any, heard: Heard) -> None:
        self._stream = stream
        self._heard = heard

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    async def __aenter__(self) -> Any:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *raised: Any) -> Any:
        return await self._stream.__aexit__(*raised)

    def __aiter__(self) -> Any:
        return self

    async def __anext__(self) -> Any:
        item = await anext(self._stream)
        if isinstance(item, SessionMessage) and isinstance(item.message, types.JSONRPCResponse):
            self._heard.mend(item.message.result)
        return item


_Incoming = MemoryObjectSendStream[SessionMessage | Exception]
_Outgoing = MemoryObjectReceiveStream[SessionMessage]


@asynccontextmanager
async def program(address: Mapping[str, Any], heard: Heard) -> AsyncIterator[tuple[Any, Any]]:
    """The two streams of messages of a program, which ends with them; raises OSError."""
    process = await asyncio.create_subprocess_exec(
        *address["command"],
        env=address["env"],
        cwd=address["folder"],
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        limit=LONGEST_MESSAGE,
    )
    incoming, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_read, process, incoming, heard)
        tasks.start_soon(_write, process, outgoing)
        tasks.start_soon(heard.listen, process.stderr)
        try:
            yield _Mended(read, heard), write
        finally:
            with anyio.CancelScope(shield=True):
                await _end(process)
            for stream in (read, write, incoming, outgoing):
                stream.close()
            tasks.cancel_scope.cancel()


async def _read(process: asyncio.subprocess.Process, incoming: _Incoming, heard: Heard) -> None:
    stdout, garbage = process.stdout, 0
    with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
        async with incoming:
            while stdout is not None and (line := await _line(stdout, heard)):
                message = _message(line)
                if message is not None:
                    await incoming.send(message)
                elif line.strip():
                    heard.garbage = heard.garbage or line.decode(errors="replace").strip()[:200]
                    garbage += 1
                if garbage > MAX_GARBAGE:
                    heard.fault = "it writes something else than messages"
                    return
            # Noted here, so that a call without an answer can state the reason.
            if await _has_ended(process):
                heard.exit_code = process.returncode


async def _line(stdout: asyncio.StreamReader, heard: Heard) -> bytes:
    """The next line; empty at the end, or where it has no end."""
    try:
        return await stdout.readline()
    except ValueError:
        heard.fault = f"one of its messages is longer than {LONGEST_MESSAGE:,} bytes"
        return b""


def _message(line: bytes) -> SessionMessage | None:
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError:
        return None


async def _write(process: asyncio.subprocess.Process, outgoing: _Outgoing) -> None:
    stdin = process.stdin
    with suppress(OSError):
        async with outgoing:
            async for message in outgoing:
                text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                if stdin is not None:
                    stdin.write(f"{text}\n".encode())
                    await stdin.drain()


async def _end(process: asyncio.subprocess.Process) -> None:
    """Let the program end by itself, then ask it to. Its group is killed with the worker."""
    if process.stdin is not None:
        process.stdin.close()
    if not await _has_ended(process):
        with suppress(ProcessLookupError):
            process.terminate()
        await _has_ended(process)


async def _has_ended(process: asyncio.subprocess.Process) -> bool:
    with suppress(TimeoutError):
        async with asyncio.timeout(LEAVING_S):
            await process.wait()
            return True
    return False


LONGEST_STREAM = 20 * LONGEST_MESSAGE
"""Bytes of one response, which may stream many messages."""


@asynccontextmanager
async def website(address: Mapping[str, Any], heard: Heard) -> AsyncIterator[tuple[Any, Any]]:
    """The two streams of messages of a server on the network."""
    # The client reads from the environment how the network is reached.
    os.environ.update(address["network"])
    # The caller keeps the time. Compressed responses would have no bounded size.
    headers = {"Accept-Encoding": "identity", **address["headers"]}
    async with (
        httpx2.AsyncClient(
            headers=headers, timeout=None, event_hooks={"response": [partial(_bound, heard)]}
        ) as client,
        streamable_http_client(
            address["url"], http_client=client, max_sse_event_size=LONGEST_MESSAGE
        ) as (read, write),
    ):
        yield _Mended(read, heard), write


async def _bound(heard: Heard, response: httpx2.Response) -> None:
    """Note the status of a response, and stop reading one that does not end."""
    heard.status = response.status_code
    if response.headers.get("content-encoding", "identity") != "identity":
        heard.fault = "it sent a packed response, which nobody asked for"
        raise httpx2.DecodingError(heard.fault)
    if isinstance(response.stream, httpx2.AsyncByteStream):
        is_stream = "text/event-stream" in response.headers.get("content-type", "")
        most = LONGEST_STREAM if is_stream else LONGEST_MESSAGE
        response.stream = _Counted(response.stream, most)


class _Counted(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream, most: int) -> None:
        self._stream = stream
        self._left = most

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for data in self._stream:
            self._left -= len(data)
            if self._left < 0:
                raise httpx2.ReadError(
                    f"one of its responses is longer than {LONGEST_MESSAGE:,} bytes"
                )
            yield data

    async def aclose(self) -> None:
        await self._stream.aclose()


MAX_TEXT = 200_000
"""Characters of a result."""
MAX_SCHEMA = 100_000
"""Characters of a tool's schema and description."""


def offer(tool: types.Tool) -> dict[str, Any]:
    described = {
        "name": tool.name,
        "description": tool.description or tool.title or "",
        "schema": tool.input_schema,
    }
    written = json.dumps(described, sort_keys=True, separators=(",", ":"))
    if len(written) > MAX_SCHEMA:
        described |= {"description": "", "schema": {"type": "object"}}
    return {**described, "digest": f"sha256:{hashlib.sha256(written.encode()).hexdigest()}"}


@lru_cache(1_000)
def _schema_fault(written: str) -> str:
    schema = json.loads(written)
    judge: Any = validator_for(schema, Draft202012Validator)
    try:
        # Its patterns need not be Python's.
        judge.check_schema(schema, format_checker=FormatChecker(()))
    except SchemaError as error:
        return f"its schema is no JSON Schema: at {error.json_path}, {error.message:.300}"
    except RecursionError:
        return "its schema is nested too deep"
    return ""


def in_words(error: ValidationError) -> str:
    faults = [(".".join(map(str, one["loc"])), one["msg"]) for one in error.errors()[:3]]
    return "; ".join(f"`{at}`: {said.partition(' or instance')[0]}" for at, said in faults)


def unknown(name: str, known: list[str]) -> str:
    near = get_close_matches(name, known, 1)
    listed = ", ".join(f"`{one:.60}`" for one in known[:20]) or "none"
    remedy = f"did you mean `{near[0]}`?" if near else f"it has {listed}"
    return f"it has no tool `{name}`; {remedy}"


def result(given: types.CallToolResult) -> dict[str, Any]:
    """The texts of a result, or its data where it has no text."""
    texts = [text for block in given.content if (text := _text(block))]
    if not texts and given.structured_content is not None:
        texts = [json.dumps(given.structured_content, ensure_ascii=False)]
    return answer("\n".join(texts), is_error=bool(given.is_error))


def answer(text: str, *, is_error: bool) -> dict[str, Any]:
    told = text[:MAX_TEXT]
    return {"text": told, "left_out": len(text) - len(told), "is_error": is_error}


def _block(given: Any) -> Any:
    """A block of a result; one of a kind that nobody knows becomes its JSON as a text."""
    try:
        _BLOCK.validate_python(given, by_name=False)
    except ValidationError:
        return {"type": "text", "text": text_or_json(given)}
    return given


_BLOCK: TypeAdapter[types.ContentBlock] = TypeAdapter(types.ContentBlock)


def _text(block: types.ContentBlock) -> str:
    match block:
        case types.TextContent():
            return block.text
        case types.ImageContent() | types.AudioContent():
            return f"[{block.mime_type}, left out]"
        case types.ResourceLink():
            return f"[{block.name}: {block.uri}]"
        case types.EmbeddedResource():
            held = block.resource
            if isinstance(held, types.TextResourceContents):
                return held.text
            return f"[{held.uri}, left out]"


CLOSING_S = 3.0
"""How long the server may take to end by itself."""


async def respond_to_requests(sock: socket.socket) -> None:
    reader, writer = await asyncio.open_unix_connection(sock=sock, limit=100_000_000)
    session = Session()
    try:
        writer.write(b"\n")
        while line := await reader.readline():
            response = await _respond(session, line)
            writer.write(json.dumps(response).encode() + b"\n")
            await writer.drain()
    finally:
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSING_S):
                await session.close()


async def _respond(session: Session, line: bytes) -> Mapping[str, Any]:
    try:
        request = json.loads(line)
        if "list" in request:
            return await session.list_tools(request["list"], request["timeout_s"])
        if "call" in request:
            return await session.call(**request)
        return await session.connect(request)
    except ServerFailed as fault:
        return {"fault": fault.message, "transient": fault.transient}
    except Exception as error:  # noqa: BLE001 - a server may make the client raise anything
        return {"fault": f"{type(error).__name__}: {error}"[:1000], "transient": True}


def main() -> None:
    """Answer requests on stdin until it is closed, and leave nothing to wait for."""
    # The answers contain what the client would log about a server.
    logging.disable(logging.CRITICAL)
    try:
        asyncio.run(respond_to_requests(socket.socket(fileno=0)))
    finally:
        os._exit(0)


if __name__ == "__main__":
    main()
