"""Owners of runs: the processes that have claimed them."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Owner:
    """Who claimed a run: a process, its host, and since when in Unix seconds."""

    pid: int
    host: str
    since: float

    def is_alive(self) -> bool:
        """Whether the process may exist; one of another host may."""
        if self.host != os.uname().nodename:
            return True
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            return True
        return True

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host} since {_clock_time(self.since)}"


def _clock_time(at: float) -> str:
    then = time.localtime(at)
    today = then[:3] == time.localtime()[:3]
    return time.strftime("%H:%M:%S" if today else "%Y-%m-%d %H:%M:%S", then)
