"""A process of ours that is asked line by line, and ended together with all that it started."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress

from loopkit.outside.groups import GROUPS

LONGEST_LINE = 16_000_000
"""Bytes of an answer."""


class Ended(Exception):
    """The process ended, or closed its side."""


class Dialogue:
    """One process, which answers each line with a line."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self._process = process
        self._reader = reader
        self._writer = writer

    @classmethod
    async def start(cls, argv: Sequence[str], env: Mapping[str, str]) -> Dialogue:
        """Start the process, which finds its end of a socket as its stdin; raises OSError.

        It leads a session of its own. Where this process is killed, all of that is killed too.
        """
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                process = _start(argv, env, theirs)
        except OSError:
            ours.close()
            raise
        streams = await asyncio.open_unix_connection(sock=ours, limit=LONGEST_LINE)
        return cls(process, *streams)

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
        """Give the process `grace_s` seconds to close its connections, then kill its group."""
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
            os.killpg(self._process.pid, signal.SIGKILL)
        GROUPS.remove(self._process.pid)
        threading.Thread(target=self._process.wait, name="loopkit-reap", daemon=True).start()


def _start(
    argv: Sequence[str], env: Mapping[str, str], stdin: socket.socket
) -> subprocess.Popen[bytes]:
    with GROUPS.start() as add:
        process = subprocess.Popen(  # noqa: S603 - a module of our own
            argv,
            env=env,
            stdin=stdin.fileno(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        add(process.pid)
    return process
