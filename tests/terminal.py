"""A program at a pseudo-terminal: what it writes is read, and what it waits for is typed."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pytest

from tests.warm import Process


@dataclass
class Terminal:
    """A pseudo-terminal with a program of Python's in it, and what it has written."""

    argv: Sequence[str]
    program: Sequence[str] = ("-m", "loopkit")
    columns: int = 100
    env: Mapping[str, str] = field(default_factory=dict)
    output: str = ""
    has_litellm: bool = False
    """Whether its client of models is there when it starts."""

    def __post_init__(self) -> None:
        self._terminal, theirs = pty.openpty()
        self.resize(self.columns)
        gone = ("NO_COLOR", "CI", "COLUMNS", "LINES")
        kept = {k: v for k, v in os.environ.items() if k not in gone}
        env = {**kept, "TERM": "xterm-256color", **self.env}
        argv = [*self.program, *self.argv]
        self._process = Process(
            argv, [theirs] * 3, env=env, is_terminal=True, has_litellm=self.has_litellm
        )
        os.close(theirs)

    def resize(self, columns: int) -> None:
        self.columns = columns
        fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))

    def wait_for(self, pattern: str, timeout_s: float = 120) -> str:
        """Everything that was written up to and with a pattern since the last wait."""
        begin, deadline = len(self.output), time.monotonic() + timeout_s
        while not (found := re.search(pattern, self.output[begin:])):
            assert time.monotonic() < deadline, f"{pattern!r} never came: {self.output!r}"
            assert self._read(), f"it ended before {pattern!r}: {self.output!r}"
        return self.output[begin:][: found.end()]

    def type(self, text: str) -> None:
        os.write(self._terminal, text.encode(errors="surrogateescape"))

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def end(self) -> int:
        """The exit code; a program that goes on is killed, and is a failure."""
        deadline = time.monotonic() + 120
        while self._read():
            if time.monotonic() > deadline:
                self.signal(signal.SIGKILL)
                pytest.fail(f"it did not end: {self.output!r}")
        os.close(self._terminal)
        return self._process.wait(120)

    def _read(self) -> bool:
        if not select.select([self._terminal], [], [], 0.2)[0]:
            return True
        try:
            self.output += os.read(self._terminal, 65536).decode(errors="replace")
        except OSError:
            return False
        return True
