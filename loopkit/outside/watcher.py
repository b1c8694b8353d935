"""The watcher: a process that outlives ours by a moment, and ends the commands left behind.

It is this file, run by itself. On stdin it reads which process groups are running, `+12` and `-12`
a line. Only the process that started it can write there, so the end of the input means that
this process is gone, however that happened, and every group that is left is killed.
"""

import os
import signal
import sys
from collections.abc import Iterable
from contextlib import suppress


def outlive(changes: Iterable[str]) -> None:
    """Follow the messages until the input ends, then kill the groups that are left."""
    groups: set[int] = set()
    for change in changes:
        group = int(change[1:])
        if change.startswith("+"):
            groups.add(group)
        else:
            groups.discard(group)
    for group in groups:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)


if __name__ == "__main__":
    outlive(sys.stdin)
