"""The watcher: a process that outlives ours by a moment, and ends the commands left behind.

It is this file, run by itself. On stdin it reads which process groups are running, `+12` and `-12`
a line. Only the process that started it can write there, so the end of the input means that
this process is gone, however that happened, and every group that is left is killed.

It imports only what an interpreter has loaded anyway, because it is started so often.
"""

import os
import sys

KILL = 9
"""SIGKILL, on every system."""


def outlive() -> None:
    """Follow the messages until stdin ends, then kill the groups that are left."""
    groups: set[int] = set()
    for change in sys.stdin:
        group = int(change[1:])
        if change.startswith("+"):
            groups.add(group)
        else:
            groups.discard(group)
    for group in groups:
        try:  # noqa: SIM105 - `suppress` is in `contextlib`
            os.killpg(group, KILL)
        except (ProcessLookupError, PermissionError):
            pass


if __name__ == "__main__":
    outlive()
