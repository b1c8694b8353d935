"""The gate of an `each` state: which of its children's states may work at the same time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager

from loopkit.drive.line import Line, WaitFor


class Gate:
    """Lets in one of the `serial` states at a time, and no other state beside an `alone` one."""

    def __init__(self, serial: Collection[str], alone: Collection[str]) -> None:
        self._serial = frozenset(serial)
        self._alone = frozenset(alone)
        self._serial_line, self._line = Line(), Line()
        self._is_serial_taken = False
        self._working = 0
        self._is_closed = False
        """Whether an `alone` state is working."""

    @asynccontextmanager
    async def open_for(self, state: str, wait_for: WaitFor) -> AsyncIterator[None]:
        """Entered while a state works. Raises Stopped if the run is stopped before it may."""
        is_serial = state in self._serial
        if is_serial:
            await self._serial_line.enter(self._take_turn, wait_for)
        try:
            if self._alone:
                await self._line.enter(lambda: self._let_in(state), wait_for)
            try:
                yield
            finally:
                if self._alone:
                    self._let_out()
        finally:
            if is_serial:
                self._is_serial_taken = False
                self._serial_line.move_up()

    def _take_turn(self) -> bool:
        if self._is_serial_taken:
            return False
        self._is_serial_taken = True
        return True

    def _let_in(self, state: str) -> bool:
        is_alone = state in self._alone
        if self._is_closed or (is_alone and self._working):
            return False
        self._working += 1
        self._is_closed = is_alone
        return True

    def _let_out(self) -> None:
        self._working -= 1
        self._is_closed = False
        self._line.move_up()
