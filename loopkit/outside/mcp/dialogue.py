"""A worker that is asked line by line, and ended together with all that it started."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import threading
from contextlib import suppress

from loopkit.outside.groups import GROUPS
from loopkit.outside.python_workers import worker_command, worker_environment

COMMAND = worker_command("loopkit.outside.mcp.worker")
LONGEST_LINE = 16_000_000
"""Bytes of an answer."""


class Ended(Exception):
    """The worker ended, or closed its side."""


class Dialogue:
    """One worker, which answers each line with a line."""

    def __init__(
        self,
        worker: subprocess.Popen[bytes],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
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
        with theirs:
            reader, writer = await asyncio.open_unix_connection(sock=ours, limit=LONGEST_LINE)
            try:
                started = cls(_start_worker(theirs), reader, writer)
            except OSError:
                writer.close()
                raise
        try:
            await started._receive()
        except BaseException:
            await started.end(grace_s=0)
            raise
        return started

    async def ask(self, line: str) -> str:
        """The answer to one line; raises Ended."""
        try:
            self._writer.write(f"{line}\n".encode())
            await self._writer.drain()
        except OSError as error:
            raise Ended from error
        return await self._receive()

    async def _receive(self) -> str:
        try:
            line = await self._reader.readline()
        except (OSError, ValueError) as error:
            raise Ended from error
        if not line.endswith(b"\n"):
            raise Ended
        return line.decode()

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
            os.killpg(self._worker.pid, signal.SIGKILL)
        GROUPS.remove(self._worker.pid)
        threading.Thread(target=self._worker.wait, name="loopkit-reap", daemon=True).start()


def _start_worker(asked: socket.socket) -> subprocess.Popen[bytes]:
    with GROUPS.start() as add:
        worker = subprocess.Popen(  # noqa: S603 - a module of our own
            COMMAND,
            env=worker_environment(),
            stdin=asked.fileno(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        add(worker.pid)
    return worker
