"""The watcher: a process that outlives ours by a moment, and ends the commands left behind.

It is this file, run by itself. On stdin it reads which process groups are running, `+12` and `-12`
a line. Only the process that started it can write there, so the end of the input means that
this process is gone, however that happened, and every group that is left is killed.

A line `~20` is a sign of life. If none comes within so many seconds, that process stands still, and
others may do its work by now: the groups that are left are killed too.

Between `?pipe:[34]` and `!pipe:[34]` a command is started whose output is this pipe. It runs by the
end of the input, which it holds open itself until then.

It imports only what an interpreter has loaded anyway, because it is started so often.
"""

import _signal  # type: ignore[import-not-found]  # `signal` takes ten times as long
import os
import sys

KILL = 9
"""SIGKILL, on every system."""
_groups: set[int] = set()
_starting: set[str] = set()


def outlive() -> None:
    """Follow the messages until stdin ends, then kill the groups that are left."""
    _signal.signal(_signal.SIGALRM, lambda *_: kill_all())
    for change in sys.stdin:
        if change.startswith("~"):
            _signal.setitimer(_signal.ITIMER_REAL, float(change[1:]))
        elif change.startswith("+"):
            _groups.add(int(change[1:]))
        elif change.startswith("?"):
            _starting.add(change[1:-1])
        elif change.startswith("!"):
            _starting.discard(change[1:-1])
        else:
            _groups.discard(int(change[1:]))
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
