"""A server that is a program: its messages line by line, each bounded, and its end.

The client's own transport gives the program a session of its own, so that it would outlive a
worker that is killed, and reads a long line in a time that grows with its square.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

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

    async def listen(self, stream: asyncio.StreamReader | None) -> None:
        """Keep the end of the program's stderr."""
        while stream is not None and (data := await stream.read(_PRINTED)):
            self._stderr.append(data)

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
            yield read, write
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
