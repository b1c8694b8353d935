"""The fork server: a process that has imported the client, and forks a worker for each connection.

The import takes most of a second, and a fork a few milliseconds. The fork server does nothing else,
has one thread, and ends with this process.
"""

from __future__ import annotations

import os
import socket
import subprocess
import threading
from contextlib import suppress

from loopkit.outside.python_workers import worker_command, worker_environment

COMMAND = worker_command("loopkit.outside.mcp.worker")
LENGTH = 8
"""Bytes of a message to it: the number of a worker to reap, or 0 for a new worker, with the socket
on which that is asked."""


class ForkServer:
    """The fork server of this process, started with the first worker."""

    def __init__(self) -> None:
        self._forget()

    def _forget(self) -> None:
        self._lock = threading.Lock()
        self._asking: socket.socket | None = None

    def after_fork(self) -> None:
        """Leave it to the parent, with which it ends."""
        if self._asking is not None:
            self._asking.close()
        self._forget()

    def start_worker(self, asked: socket.socket) -> None:
        """Start a worker that is asked on this socket, where it first writes its process number;
        raises OSError. A worker that was never asked anything ends with the other end."""
        with self._lock:
            if self._asking is not None:
                with suppress(ConnectionError):
                    _send(self._asking, 0, asked)
                    return
                # Somebody has ended it.
                self._asking.close()
            self._asking = _start()
            _send(self._asking, 0, asked)

    def reap(self, worker: int) -> None:
        """Give up the number of a worker that was killed, which then is free for others."""
        with self._lock, suppress(ConnectionError):
            if self._asking is not None:
                _send(self._asking, worker)


def _send(asking: socket.socket, number: int, *passed: socket.socket) -> None:
    message = number.to_bytes(LENGTH, "big")
    socket.send_fds(asking, [message], [each.fileno() for each in passed])


def _start() -> socket.socket:
    ours, theirs = socket.socketpair()
    try:
        with theirs:
            # A session of its own keeps Ctrl-C away from it.
            process = subprocess.Popen(  # noqa: S603 - a module of our own
                COMMAND,
                env=worker_environment(),
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
    except OSError:
        ours.close()
        raise
    threading.Thread(target=process.wait, name="loopkit-reap", daemon=True).start()
    return ours


FORK_SERVER = ForkServer()
os.register_at_fork(after_in_child=FORK_SERVER.after_fork)
