"""Pipes to a command: its stdin, complete before it starts, and its output, bounded."""

from __future__ import annotations

import asyncio
import fcntl
import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO

_PIPE_BYTES = 65_536
"""The default capacity of a pipe."""
_READ_BYTES = 262_144


@contextmanager
def holding(text: str | None) -> Iterator[int]:
    """A descriptor that holds the whole text as UTF-8 before a command starts with it.

    So a process that is killed meanwhile leaves no command that takes the beginning of its input
    for all of it. A pipe, which programs expect, as far as a pipe has room; else a file without a
    name. Raises `OSError`.
    """
    if text is None:
        yield subprocess.DEVNULL
        return
    content = text.encode()
    reader, writer = os.pipe()
    try:
        if _fits(writer, content):
            yield reader
            return
    finally:
        os.close(reader)
    with tempfile.TemporaryFile() as file:
        file.write(content)
        file.seek(0)
        yield file.fileno()


def _fits(writer: int, content: bytes) -> bool:
    """Whether a pipe has room for all of the content, which is in it then; the end is closed."""
    try:
        os.set_blocking(writer, False)
        if hasattr(fcntl, "F_SETPIPE_SZ"):
            # More than the system allows; then it keeps the size that it had.
            with suppress(OSError):
                fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, max(len(content), _PIPE_BYTES))
        return not content or os.write(writer, content) == len(content)
    except BlockingIOError:
        return False
    finally:
        os.close(writer)


class Captured:
    """The output written to a pipe: its first and last bytes, at most `limit` together."""

    def __init__(self, pipe: IO[bytes], limit: int) -> None:
        """Begin to read; it goes on until all who could write are gone, or `close`."""
        self._loop = asyncio.get_running_loop()
        self._pipe = pipe
        self._tail_limit = max(limit, 0) // 2
        self._head_limit = max(limit, 0) - self._tail_limit
        self._head = bytearray()
        self._tail = bytearray()
        self.missing = 0
        self.closed: asyncio.Future[None] = self._loop.create_future()
        os.set_blocking(pipe.fileno(), False)
        self._loop.add_reader(pipe.fileno(), self._read)

    def close(self) -> None:
        """Close the pipe; a second call changes nothing."""
        if not self.closed.done():
            self._loop.remove_reader(self._pipe.fileno())
            self._pipe.close()
            self.closed.set_result(None)

    def text(self) -> str:
        head, tail = bytes(self._head), bytes(self._tail)
        if self.missing:
            # The note has its own line, or two halves of different lines would read as one.
            tail = b"\n[%d bytes left out]\n" % self.missing + tail
        return (head + tail).decode(errors="replace")

    def _read(self) -> None:
        try:
            data = os.read(self._pipe.fileno(), _READ_BYTES)
        except BlockingIOError:
            return
        if data:
            self._feed(data)
        else:
            self.close()

    def _feed(self, data: bytes) -> None:
        room = self._head_limit - len(self._head)
        self._head += data[:room]
        self._tail += data[room:]
        surplus = max(0, len(self._tail) - self._tail_limit)
        del self._tail[:surplus]
        self.missing += surplus
