"""Signals to a running drive: the first finishes the step, the second ends the process."""

from __future__ import annotations

import asyncio
import os
import signal
from socket import socketpair
from types import FrameType
from typing import Any, Protocol

from loopkit.cli import exit_codes
from loopkit.cli.person import WAKING_BYTES, PersonAtTerminal
from loopkit.cli.watching import Watcher
from loopkit.outside.groups import GROUPS

FIRST = "the step in hand is finished first; a second {second} aborts its call"
"""The message after the first signal to a running drive."""


FAMILY = "the steps in hand are finished first; a second {second} aborts their calls"
"""The message after the first signal to a run with children, which may be many."""


class Stoppable(Protocol):
    """A run, a batch of runs, or the work after a run."""

    stopping: bool

    def stop(self) -> None:
        """Stop as soon as nothing is lost by it: a run stops once its current step is stored."""
        ...


class Interruption:
    """The first signal finishes the step and stores it; the second ends the process.

    It does so in its handler, which runs between any two steps of Python, whatever the event loop
    is busy with; a pattern of a rule looks out for signals as well. What is being written to the
    journal then is written whole or not at all.
    """

    def __init__(self) -> None:
        self._active: Stoppable | None = None
        self._go_on = ""
        self._told = ""
        self._person: PersonAtTerminal | None = None
        self._watcher = Watcher()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._before: dict[int, Any] = {}
        self.signal: int | None = None
        self.woken, self._waking = socketpair()
        """Readable once there was a signal. Who waits for something else waits for it too: one that
        came right before the wait interrupts no system call, and its handler runs after that."""

    def __enter__(self) -> Interruption:
        for end in (self.woken, self._waking):
            end.setblocking(False)
        signal.set_wakeup_fd(self._waking.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._handle_signal)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(-1)
        self.woken.close()
        self._waking.close()

    def watch(
        self,
        active: Stoppable,
        go_on: str,
        told: str = FIRST,
        *,
        watcher: Watcher | None = None,
        person: PersonAtTerminal | None = None,
    ) -> None:
        """Set what a signal stops; after an earlier signal it is stopped before it begins work.

        `go_on` says how to go on after a second signal.
        """
        self._active, self._person, self._watcher = active, person, watcher or Watcher()
        self._go_on, self._told = go_on, told
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self.woken, self.woken.recv, WAKING_BYTES)
        if self.signal is not None:
            active.stop()

    def end_at_once(self, last: Stoppable, told: str) -> None:
        """Let the first signal from now on end the remaining work, since the run has stopped."""
        self._active, self._go_on, self._told = last, "", told

    @property
    def code(self) -> int:
        """The exit code that stands for the signal."""
        return exit_codes.SIGTERM if self.signal == signal.SIGTERM else exit_codes.SIGINT

    def _handle_signal(self, number: int, _: FrameType | None) -> None:
        is_second, self.signal = self.signal is not None, number
        if is_second:
            GROUPS.end(self._leave)
        elif self._active is not None and self._loop is not None:
            self._active.stopping = True
            if self._person is not None and self._person.is_asking:
                raise KeyboardInterrupt
            second = "SIGTERM" if number == signal.SIGTERM else "Ctrl-C"
            self._watcher.say_in_signal(self._told.format(second=second))
            self._loop.call_soon_threadsafe(self._active.stop)

    def _leave(self) -> None:
        go_on = f"; {self._go_on}" if self._go_on else ""
        self._watcher.say_at_the_end(f"aborted{go_on}")
        os._exit(self.code)
