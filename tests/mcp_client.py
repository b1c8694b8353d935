"""A server of MCP in a process of its own, and the `mcp` package's client that speaks with it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import threading
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, Self, TextIO, TypeVar, cast

from mcp import Client, StdioServerParameters, types
from mcp.client.stdio import stdio_client

from loopkit.serving.tools.arguments import Tell
from tests import warm

T = TypeVar("T")
ABOUT = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"},
}
"""What a client says of itself."""
LONGEST_S = 300
Told = tuple[float, float | None, str | None]
"""Progress: how much is done, of how much, and what happened."""


def into(told: list[str]) -> Tell:
    """What adds to a list whatever happens in a call."""

    async def tell(message: str) -> None:
        told.append(message)

    return tell


class McpServer:
    """`loopkit mcp …` in a folder, with a client that one task opens and closes."""

    def __init__(
        self,
        folder: Path,
        options: Sequence[str],
        mode: str = "auto",
        *,
        env: dict[str, str] | None = None,
    ) -> None:
        """In `mode` auto both sides speak the newest protocol, in `legacy` the one before."""
        self._errors = cast("TextIO", TemporaryFile("w+", encoding="utf-8"))  # noqa: SIM115
        program, *arguments = warm.command("-m", "loopkit", "mcp", *options)
        self._server = StdioServerParameters(command=program, args=arguments, cwd=folder, env=env)
        self._loop = asyncio.new_event_loop()
        self._over, self._open = asyncio.Event(), threading.Event()
        self._thread = threading.Thread(
            target=self._loop.run_until_complete, args=[self._hold(mode)]
        )
        self._thread.start()
        assert self._open.wait(LONGEST_S)

    async def _hold(self, mode: str) -> None:
        streams = stdio_client(self._server, errlog=self._errors)
        try:
            async with Client(streams, mode=mode) as self.client:
                self._open.set()
                await self._over.wait()
        finally:
            self._open.set()

    def ask(self, asked: Coroutine[Any, Any, T]) -> T:
        """What comes of a coroutine in the client's event loop."""
        return asyncio.run_coroutine_threadsafe(asked, self._loop).result(LONGEST_S)

    def tools(self) -> dict[str, types.Tool]:
        return {tool.name: tool for tool in self.ask(self.client.list_tools()).tools}

    def call(
        self, name: str, arguments: dict[str, Any], told: list[Told] | None = None
    ) -> types.CallToolResult:
        """What a tool answers; its text and its data are the same. Progress is added to `told`."""

        async def tell(done: float, total: float | None, message: str | None) -> None:
            assert told is not None
            told.append((done, total, message))

        hear = None if told is None else tell
        result = self.ask(self.client.call_tool(name, arguments, progress_callback=hear))
        [text] = result.content
        assert isinstance(text, types.TextContent)
        assert result.is_error or json.loads(text.text) == result.structured_content
        return result

    def data(
        self, name: str, arguments: dict[str, Any], told: list[Told] | None = None
    ) -> dict[str, Any]:
        """The data that a tool answers."""
        result = self.call(name, arguments, told)
        assert not result.is_error, result.content
        return dict(result.structured_content)

    def refused(self, name: str, **arguments: Any) -> str:
        """Why a call has no answer."""
        result = self.call(name, arguments)
        assert result.is_error
        assert result.structured_content is None
        [text] = result.content
        assert isinstance(text, types.TextContent)
        return text.text

    def close(self) -> str:
        """What the server printed to standard error, once it has ended."""
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(LONGEST_S)
        self._loop.close()
        self._errors.seek(0)
        with self._errors:
            return self._errors.read()


class RawServer:
    """`loopkit mcp …` as a process, and a client that says each message itself, in the old way."""

    def __init__(self, folder: Path, *options: str) -> None:
        (read, stdin), (stdout, write), (stderr, tell) = os.pipe(), os.pipe(), os.pipe()
        streams = read, write, tell
        self.process = warm.Process(["-m", "loopkit", "mcp", *options], streams, cwd=folder)
        for number in streams:
            os.close(number)
        self.stdin, self.stdout, self.stderr = (
            os.fdopen(stdin, "w", encoding="utf-8"),
            os.fdopen(stdout, encoding="utf-8"),
            os.fdopen(stderr, encoding="utf-8"),
        )
        self.say(0, "initialize", ABOUT)
        self.say(None, "notifications/initialized", {})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(LONGEST_S)
        for stream in (self.stdin, self.stdout, self.stderr):
            # What was written and not read is nobody's business any more.
            with suppress(BrokenPipeError):
                stream.close()

    def say(self, number: int | None, method: str, params: dict[str, Any]) -> None:
        """Send a request, or without a number a notification."""
        message = {"jsonrpc": "2.0", "method": method, "params": params}
        numbered = message if number is None else {**message, "id": number}
        self.stdin.write(json.dumps(numbered) + "\n")
        self.stdin.flush()

    def call(self, number: int, tool: str, arguments: dict[str, Any], token: str = "") -> None:
        """Call a tool, and hear of its progress where there is a token."""
        meta = {"_meta": {"progressToken": token}} if token else {}
        self.say(number, "tools/call", {"name": tool, "arguments": arguments, **meta})

    def answer(self, number: int) -> dict[str, Any]:
        """The answer to a request; what is read before that is left out."""
        for line in self.stdout:
            said = json.loads(line)
            if said.get("id") == number and "method" not in said:
                return dict(said)
        raise AssertionError(self.stderr.read())

    def data(self, number: int, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """The data that a tool answers."""
        self.call(number, tool, arguments)
        result = self.answer(number)["result"]
        assert not result.get("isError"), result
        return dict(result["structuredContent"])

    def end(self) -> tuple[int, str, str]:
        """Go away: the exit code, and what is read until then."""
        self.stdin.close()
        out, errors = self.stdout.read(), self.stderr.read()
        return self.process.wait(LONGEST_S), out, errors
