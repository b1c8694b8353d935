"""Connections of clients: how many there are at once, and how long each may take.

If there are too many, a new one is told to come later. A connection that asks nothing is closed.
"""

from __future__ import annotations

import asyncio
import resource
from dataclasses import dataclass, field

from loopkit.serving.http.library import H11Protocol

MOST_CONNECTIONS = 2_000
LONGEST_HEAD_S = 10.0
"""How long a client may take to send the lines of a request that precede its body."""
LONGEST_READ_S = 30.0
"""How long a client may go without reading any of an answer."""
FULL = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\nretry-after: 5\r\n"
    b"connection: close\r\n\r\n"
)


def most_connections() -> int:
    """How many connections the limit on open files allows; half of the files are for runs."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files == resource.RLIM_INFINITY:
        return MOST_CONNECTIONS
    return max(1, min(MOST_CONNECTIONS, files // 2))


@dataclass
class Room:
    """The limits of the connections of one server."""

    most: int = field(default_factory=most_connections)
    longest_head_s: float = LONGEST_HEAD_S
    longest_read_s: float = LONGEST_READ_S


class Connection(H11Protocol):
    """A connection that is closed if its client takes too long."""

    room: Room
    """Set for each server."""
    _too_late: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's own
        super().connection_made(transport)
        if len(self.connections) > self.room.most:
            self.transport.write(FULL)
            self.transport.close()
        else:
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_wait()
        self.resume_writing()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._look()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._look()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._await_reading()

    def resume_writing(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None
        super().resume_writing()

    def _await_reading(self) -> None:
        unread = self.transport.get_write_buffer_size()
        self._unread = self.loop.call_later(self.room.longest_read_s, self._look_at_reading, unread)

    def _look_at_reading(self, unread: int) -> None:
        """Close the connection if its client has read nothing meanwhile; it may read slowly."""
        if self.transport.get_write_buffer_size() < unread:
            self._await_reading()
        else:
            self.transport.abort()

    def _look(self) -> None:
        """Start the timer for a complete request, unless one is being answered."""
        is_asked = self.cycle is not None and not self.cycle.response_complete
        if is_asked:
            self._end_wait()
        elif self._too_late is None and not self.transport.is_closing():
            self._wait()

    def _wait(self) -> None:
        self._too_late = self.loop.call_later(self.room.longest_head_s, self.transport.abort)

    def _end_wait(self) -> None:
        if self._too_late is not None:
            self._too_late.cancel()
            self._too_late = None
