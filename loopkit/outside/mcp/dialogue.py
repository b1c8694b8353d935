"""A worker that is asked line by line, and ended together with all that it started."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from contextlib import suppress

from loopkit.outside.groups import GROUPS
from loopkit.outside.mcp.fork_server import FORK_SERVER

LONGEST_LINE = 16_000_000
"""Bytes of an answer."""


class Ended(Exception):
    """The worker ended, or closed its side."""


class Dialogue:
    """One worker, which answers each line with a line."""

    def __init__(
        self, worker: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._worker = worker
        self._reader = reader
        self._writer = writer

    @classmethod
    async def start(cls) -> Dialogue:
        """Start a worker; raises OSError, or Ended.

        It leads a session of its own. Where this process is killed, all of that is killed too.
        """
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                FORK_SERVER.start_worker(theirs)
        except OSError:
            ours.close()
            raise
        reader, writer = await asyncio.open_unix_connection(sock=ours, limit=LONGEST_LINE)
        try:
            worker = await _number(reader)
            with GROUPS.start() as add:
                add(worker)
        except BaseException:
            writer.close()
            raise
        return cls(worker, reader, writer)

    async def ask(self, line: str) -> str:
        """The answer to one line; raises Ended."""
        try:
            self._writer.write(f"{line}\n".encode())
            await self._writer.drain()
            answer = await self._reader.readline()
        except (OSError, ValueError) as error:
            raise Ended from error
        if not answer.endswith(b"\n"):
            raise Ended
        return answer.decode()

    async def end(self, grace_s: float = 4.0) -> None:
        """Give the worker `grace_s` seconds to close its connections, then kill its group."""
        try:
            if grace_s:
                with suppress(TimeoutError, OSError):
                    self._writer.write_eof()
                    async with asyncio.timeout(grace_s):
                        await self._reader.read()
        finally:
            self._kill()
            self._writer.close()

    def _kill(self) -> None:
        # Its leader is not reaped yet, so the number of the group belongs to nobody else.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._worker, signal.SIGKILL)
        GROUPS.remove(self._worker)
        FORK_SERVER.reap(self._worker)


async def _number(reader: asyncio.StreamReader) -> int:
    """The process number of a worker; raises Ended."""
    if not (number := await reader.readline()):
        raise Ended
    return int(number)
