"""Process groups of running commands, all killed when this process ends.

Two ends are not left to the code that runs a command: that of a signal handler, and SIGKILL. For
the first the groups are kept where a handler can read them without any lock. For the second a
watcher process learns of each group; `PR_SET_PDEATHSIG` would not do, because it fires at the end
of the thread that started the command, and reaches no descendant.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from loopkit.outside import watcher


class Groups:
    """The groups of this process, each named by the number of its leader."""

    def __init__(self) -> None:
        self._forget()

    def _forget(self) -> None:
        """Reset the state, also in a fork: the groups and the watcher belong to its parent."""
        self._alive: set[int] = set()
        self._starts = 0
        self._leave: Callable[[], None] | None = None
        self._telling = threading.Lock()
        self._watcher: int | None = None

    def after_fork(self) -> None:
        """Close the pipe to the parent's watcher, which would wait for this process too."""
        if self._watcher is not None:
            os.close(self._watcher)
        self._forget()

    @contextmanager
    def start(self) -> Iterator[Callable[[int], None]]:
        """Guard the start of a command; gives the function that registers its group.

        Raises `OSError` where no watcher can be started.
        """
        self._tell("")
        self._starts += 1
        try:
            yield self._add
        finally:
            self._starts -= 1
            if self._leave is not None:
                self.end(self._leave)

    def _add(self, group: int) -> None:
        self._alive.add(group)
        self._tell(f"+{group}\n")

    def remove(self, group: int) -> None:
        """Forget a group that has ended."""
        self._alive.discard(group)
        self._tell(f"-{group}\n")

    def end(self, leave: Callable[[], None]) -> None:
        """Kill all groups, then call `leave`; safe in a signal handler.

        A handler that has interrupted the start of a command comes too early to know its group:
        `leave` is called when that is known then. A second call does not wait for it.
        """
        if self._starts and self._leave is None:
            self._leave = leave
            return
        for group in tuple(self._alive):
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(group, signal.SIGKILL)
        leave()

    def _tell(self, change: str) -> None:
        with self._telling:
            if self._watcher is None:
                self._watcher = _start_watcher()
            try:
                os.write(self._watcher, change.encode())
            except BrokenPipeError:
                # Somebody has ended the watcher. The next one gets all groups.
                os.close(self._watcher)
                self._watcher = _start_watcher()
                os.write(self._watcher, "".join(f"+{group}\n" for group in self._alive).encode())


def _start_watcher() -> int:
    """Start a watcher; the descriptor on which it learns of groups. No command inherits it."""
    reader, writer = os.pipe()
    devnull = (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)
    try:
        # A session of its own keeps Ctrl-C away from it; our streams would be held open by it.
        os.posix_spawn(
            sys.executable,
            [sys.executable, "-I", "-S", watcher.__file__],
            os.environ,
            file_actions=[(os.POSIX_SPAWN_DUP2, reader, 0), devnull, (os.POSIX_SPAWN_DUP2, 1, 2)],
            setsid=True,
        )
    except OSError:
        os.close(writer)
        raise
    finally:
        os.close(reader)
    return writer


GROUPS = Groups()
os.register_at_fork(after_in_child=GROUPS.after_fork)
