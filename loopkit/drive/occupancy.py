"""Occupied workspaces: runs of two processes never write into one folder at once."""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import os
import time
from pathlib import Path

from loopkit.drive.retries import CallFailed

FOLDER = "workspaces"
_LONGEST_ID = 1_000
_LET_GO_S = 2.0
"""How long a workspace may stay locked after its process is gone."""


class WorkspaceTaken(CallFailed):
    """Another run works in the workspace; this run has to wait, even if an edge catches errors."""


class Occupancy:
    """The workspaces in which runs of one app work.

    It does not keep these runs apart: that is up to whoever drives them together.
    """

    def __init__(self) -> None:
        self._locks: dict[Path, int] = {}
        self._runs: dict[Path, set[str]] = {}

    async def enter(self, state: Path, workspace: Path, run: str) -> None:
        """Keep other apps out of a workspace until the run leaves it.

        `state` is the state folder. The kernel frees the lock when the process ends, or a moment
        later: a program that it was starting when it was killed shares the lock until it has
        started. Raises WorkspaceTaken.
        """
        until = time.monotonic() + _LET_GO_S
        while workspace not in self._locks:
            try:
                self._locks[workspace] = _lock(state, workspace, run)
            except WorkspaceTaken:
                if time.monotonic() > until:
                    raise
                await asyncio.sleep(_LET_GO_S / 100)
        self._runs.setdefault(workspace, set()).add(run)

    def leave(self, run: str) -> None:
        """Unlock every workspace in which no other run of this app works."""
        for workspace, runs in list(self._runs.items()):
            runs.discard(run)
            if not runs:
                del self._runs[workspace]
                os.close(self._locks.pop(workspace))


def _lock(state: Path, workspace: Path, run: str) -> int:
    (state / FOLDER).mkdir(mode=0o700, parents=True, exist_ok=True)
    file = state / FOLDER / hashlib.sha256(os.fsencode(workspace)).hexdigest()[:32]
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        first = os.read(descriptor, _LONGEST_ID).decode(errors="replace")
        os.close(descriptor)
        raise WorkspaceTaken(
            "transient",
            f"run {first} works in the workspace {str(workspace)!r}; resume this one when it has "
            "stopped, or write `isolate: copy` under `workspace:` so that each works by itself",
        ) from error
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, run.encode()[:_LONGEST_ID], 0)
    return descriptor
