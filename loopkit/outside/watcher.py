"""The watcher: a process that outlives ours by a moment, and ends the commands left behind.

It is this file, run by itself. On stdin it reads which process groups are running, `+12` and `-12`
a line. Only the process that started it can write there, so the end of the input means that
this process is gone, however that happened, and every group that is left is killed.

A line `~20` is a sign of life. If none comes within so many seconds, that process stands still, and
others may do its work by now: the groups that are left are killed too.

Between `?pipe:[34]` and `!pipe:[34]` a command is started whose output is this pipe. It runs by the
end of the input, which it holds open itself until then.

It imports hardly more than an interpreter has loaded anyway, because it is started so often.
"""

import os
import select
import time

KILL = 9
"""SIGKILL, on every system."""
_groups: set[int] = set()
_starting: set[str] = set()


def outlive() -> None:
    """Follow the messages until stdin ends, then kill the groups that are left."""
    rest, dead_at = "", None
    while True:
        wait = None if dead_at is None else max(dead_at - time.monotonic(), 0.0)
        if not select.select([0], [], [], wait)[0]:
            kill_all()
            dead_at = None
            continue
        text = os.read(0, 65_536).decode()
        if not text:
            break
        *changes, rest = (rest + text).split("\n")
        for change in changes:
            what, of = change[:1], change[1:]
            if what == "~":
                dead_at = time.monotonic() + float(of) if float(of) else None
            elif what in "?!":
                (_starting.add if what == "?" else _starting.discard)(of)
            else:
                (_groups.add if what == "+" else _groups.discard)(int(of))
    kill_all()


def kill_all() -> None:
    for group in (*_groups, *_just_started()):
        try:  # noqa: SIM105 - `suppress` is in `contextlib`
            os.killpg(group, KILL)
        except (ProcessLookupError, PermissionError):
            pass


def _just_started() -> list[int]:
    """The commands of which nobody has lived to tell, where the system shows outputs."""
    found = []
    for process in os.listdir("/proc") if _starting and os.path.isdir("/proc") else ():  # noqa: PTH208
        try:
            if os.readlink(f"/proc/{process}/fd/1") in _starting:  # noqa: PTH115
                found.append(int(process))
        except OSError:
            pass
    return found


if __name__ == "__main__":
    outlive()
