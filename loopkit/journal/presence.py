"""Living processes: each holds a locked file that the kernel unlocks when the process ends.

There is one file for a process and not one for a run, so a thousand concurrent runs need one
descriptor, and the owner of a run changes in the same transaction as its records. The blocks of
this file are reserved room on the disk, which the journal gets if it could not store otherwise what
was paid for.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
from contextlib import suppress
from pathlib import Path

_NAME = re.compile(r"\d+-[0-9a-f]{16}\.lock")
_ROOM_BYTES = 8 * 2**20
"""Room for the replies to all calls in flight."""


class Presence:
    """This process's sign of life in a state folder; without a folder, visible only to itself."""

    def __init__(self, name: str, folder: Path | None, descriptor: int | None) -> None:
        self.name = name
        self._folder = folder
        self._descriptor = descriptor
        self._has_room = False

    @classmethod
    def watch(cls, state: Path) -> Presence:
        """A presence that sees others and leaves no sign, for processes that only read."""
        return cls("", state / "locks", None)

    @classmethod
    def announce(cls, state: Path | None) -> Presence:
        """Remove the files of dead processes and hold a new one; raises `OSError`.

        The caller keeps other processes out of `state` meanwhile: a file that is made but
        not yet locked looks dead.
        """
        name = f"{os.getpid()}-{os.urandom(8).hex()}.lock"
        if state is None:
            return cls(name, None, None)
        folder = state / "locks"
        folder.mkdir(mode=0o700, exist_ok=True)
        _sweep(folder)
        return cls(name, folder, _hold(folder / name))

    def sees(self, name: str) -> bool:
        """Whether the process that announced itself as `name` is alive; raises `OSError`."""
        if self._folder is None:
            return name == self.name
        if name == self.name:
            # Also if the file was removed.
            return self._descriptor is not None
        # Names come from a database; one that no process wrote must not lead to another file.
        return _NAME.fullmatch(name) is not None and _is_held(self._folder / name)

    def is_alone(self) -> bool:
        """Whether no other living process has announced itself; raises `OSError`."""
        if self._folder is None:
            return False
        return not any(p.name != self.name and _is_held(p) for p in self._folder.glob("*.lock"))

    def hold_room(self) -> None:
        """Reserve room for what is about to be paid for; raises `OSError` if there is none."""
        if self._has_room or self._descriptor is None:
            return
        self._has_room = True
        try:
            _fill(self._descriptor, _ROOM_BYTES)
        except OSError as error:
            self.give_room()
            needed = f"{_ROOM_BYTES:,} bytes are needed to keep what calls bring back"
            raise OSError(error.errno, needed) from error

    def give_room(self) -> bool:
        """Free the reserved room for what can't be written otherwise; False if none is reserved."""
        if not self._has_room or self._descriptor is None:
            return False
        self._has_room = False
        with suppress(OSError):
            os.ftruncate(self._descriptor, 0)
        return True

    def withdraw(self) -> None:
        """Remove the sign of life; every run that this process owned is free at once."""
        if self._folder is None or self._descriptor is None:
            return
        os.close(self._descriptor)
        self._descriptor = None
        # A file that cannot be removed now is removed by the next process that opens the folder.
        with suppress(OSError):
            (self._folder / self.name).unlink()


def _hold(path: Path) -> int:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _is_held(path: Path) -> bool:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        # A shared lock, so that two processes that check at once do not see each other as the
        # owner.
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _fill(descriptor: int, size: int) -> None:
    """Allocate blocks for all bytes of a file."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(descriptor, 0, size)
    elif os.pwrite(descriptor, bytes(size), 0) < size:
        raise OSError(errno.ENOSPC, "there is less room")


def _sweep(folder: Path) -> None:
    for path in folder.glob("*.lock"):
        if not _is_held(path):
            path.unlink(missing_ok=True)
