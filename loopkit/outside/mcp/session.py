"""The client of a server, in a worker: connects, lists and calls, each within its time.

The client has no timeouts of its own. One task has to enter and to leave it, and calls from that
task would be cancelled where a server on the network dies.
"""

from __future__ import annotations

import asyncio
from asyncio import FIRST_COMPLETED
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import mcp
import mcp_types as types
from jsonschema import Draft202012Validator
from mcp.shared.exceptions import MCPError

from loopkit.outside.mcp.http import website
from loopkit.outside.mcp.offers import answer, offer, result, unknown
from loopkit.outside.mcp.stdio import Heard, program

T = TypeVar("T")
MAX_PAGES = 100
_REFUSED = {401: "it wants to know who asks", 403: "it lets nobody in who asks like this"}
_GONE = {404, 408, 425, 429}
"""Statuses after which a new connection may help, such as that of an ended session."""


class Fault(Exception):
    """The reason why a request failed."""

    def __init__(self, message: str, *, transient: bool) -> None:
        super().__init__(message)
        self.message = message
        self.transient = transient


class Session:
    """One connection, held open by a task of its own."""

    def __init__(self) -> None:
        self._heard = Heard()
        self._ready: asyncio.Future[mcp.Client] = asyncio.get_running_loop().create_future()
        self._closing = asyncio.Event()
        self._owner: asyncio.Task[None] | None = None

    async def connect(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        """Connect with a `program` or a `website`."""
        kinds = {"program": program, "website": website}
        kind = next(kind for kind in kinds if kind in request)
        transport = kinds[kind](request[kind], self._heard)
        self._owner = asyncio.create_task(self._hold(mcp.Client(transport, cache=None)))
        await self._within(request["timeout_s"], self._wait_for_client(), "it did not connect")
        return {"connected": True}

    async def _wait_for_client(self) -> mcp.Client:
        return await asyncio.shield(self._ready)

    async def _hold(self, client: mcp.Client) -> None:
        async with client:
            self._ready.set_result(client)
            await self._closing.wait()

    async def close(self) -> None:
        """Let the server end."""
        self._closing.set()
        if self._owner is not None:
            with suppress(Exception):
                await self._owner

    async def list_tools(self, names: Sequence[str] | None, timeout_s: float) -> dict[str, Any]:
        """The tools of these names, or all of them."""
        offered = await self._within(timeout_s, self._every_tool(), "it did not say what it offers")
        if names is None:
            return {"tools": [offer(tool) for tool in offered.values()]}
        for name in names:
            if name not in offered:
                raise Fault(unknown(name, list(offered)), transient=False)
        return {"tools": [offer(offered[name]) for name in names]}

    async def _every_tool(self) -> dict[str, types.Tool]:
        client, offered, cursor = await self._wait_for_client(), dict[str, types.Tool](), None
        for _ in range(MAX_PAGES):
            page = await client.list_tools(cursor=cursor)
            offered |= {tool.name: tool for tool in page.tools}
            cursor = page.next_cursor
            if cursor is None:
                break
        return offered

    async def call(
        self, call: str, arguments: dict[str, Any], digest: str, timeout_s: float
    ) -> dict[str, Any]:
        """The result of a tool, if it still has this digest."""
        within = f"`{call}` gave no answer"
        return await self._within(timeout_s, self._call(call, arguments, digest), within)

    async def _call(self, name: str, arguments: dict[str, Any], digest: str) -> dict[str, Any]:
        offered = await self._every_tool()
        if name not in offered:
            raise Fault(unknown(name, list(offered)), transient=False)
        tool = offered[name]
        if (now := offer(tool)["digest"]) != digest:
            raise Fault(
                f"its tool `{name}` is no longer what it was: it was {digest}, and is {now} now",
                transient=False,
            )
        if wrong := _wrong(tool.input_schema, arguments):
            return answer(wrong, is_error=True)
        client = await self._wait_for_client()
        try:
            given = await client.session.call_tool(name, arguments, allow_input_required=True)
        except MCPError as error:
            if self._is_lost(error):
                raise
            return answer(error.message, is_error=True)
        except RuntimeError as error:
            return answer(f"what it gave is not what it declares: {error}", is_error=True)
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
            raise Fault("nobody has connected yet", transient=False)
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
        finally:
            task.cancel()

    async def _outcome(self, task: asyncio.Task[T], late: str) -> T:
        if task.done():
            return task.result()
        if self._owner is not None and self._owner.done():
            raise self._connection_fault(self._owner.exception())
        heard = str(self._heard)
        raise Fault(f"{late}; {heard}" if heard else late, transient=True)

    def _connection_fault(self, error: BaseException | None) -> Fault:
        """The fault that says why the connection ended."""
        cause = error
        while isinstance(cause, BaseExceptionGroup):
            cause = cause.exceptions[0]
        heard, status = str(self._heard), self._heard.status
        if isinstance(cause, FileNotFoundError | PermissionError | NotADirectoryError):
            reason = f"its program was not started: {cause.filename}: {cause.strerror}"
            return Fault(reason, transient=False)
        if status in _REFUSED:
            reason = f"{_REFUSED[status]} (HTTP status {status}); see `headers:`"
            return Fault(reason, transient=False)
        if status >= 400:
            heard = f"HTTP status {status}"
        reason = heard or f"{type(cause).__name__}: {cause}"[:1000]
        is_gone = status < 400 or status >= 500 or status in _GONE
        return Fault(f"the connection was lost: {reason}", transient=is_gone)


def _wrong(schema: dict[str, Any], arguments: dict[str, Any]) -> str:
    """The mistakes in the arguments of a call, which servers need not check."""
    try:
        errors = list(Draft202012Validator(schema).iter_errors(arguments))[:10]
    except Exception:  # noqa: BLE001 - a schema that can't be used is the server's own matter
        return ""
    return "\n".join(f"{error.json_path}: {error.message:.300}" for error in errors)


def _question(given: types.InputRequiredResult) -> str:
    """The message about a tool that asks a person."""
    requests = (given.input_requests or {}).values()
    asked = [getattr(request.params, "message", "") for request in requests]
    messages = "; ".join(str(text) for text in asked if text)
    return f"it wants to ask a person, which is not possible here: {messages or 'no question'}"[
        :2_000
    ]
