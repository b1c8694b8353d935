"""Occupied workspaces: two runs at once do not write into one folder."""

from __future__ import annotations

import fcntl
import hashlib
import os
from pathlib import Path

from loopkit.drive.active import ActiveRun
from loopkit.drive.retries import CallFailed

FOLDER = "workspaces"
_LONGEST_ID = 1_000


class WorkspaceTaken(CallFailed):
    """Another run works in the workspace; whatever catches errors, this run has to wait."""


def occupy(active: ActiveRun, workspace: Path) -> None:
    """Keep other runs out of a workspace while this process drives this one.

    Raises WorkspaceTaken. The kernel frees the lock when the process ends.
    """
    state = active.contents.folder
    if state is None or workspace in active.occupied:
        return
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
    os.pwrite(descriptor, active.state.run.encode()[:_LONGEST_ID], 0)
    active.occupied[workspace] = descriptor


def leave(active: ActiveRun) -> None:
    """Let others into all workspaces of a run."""
    while active.occupied:
        _, descriptor = active.occupied.popitem()
        os.close(descriptor)
