"""The line of a run: calls that wait, in order, until calls that hold room are settled."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable

WaitFor = Callable[[Callable[[], Awaitable[object]]], Awaitable[None]]


class Line:
    """The calls in flight, and those that wait for room; a waiting call holds nothing."""

    __slots__ = ("_others", "in_flight", "waiting")

    def __init__(self, others: Iterable[Line] = ()) -> None:
        """`others` are the lines that share its limits; it may change later."""
        self._others = others
        self.in_flight: list[str] = []
        """Keys of the calls that are being made. Each of them ends."""
        self.waiting: list[asyncio.Event] = []
        """One for each call that waits for room, the next one first."""

    async def enter(self, is_admitted: Callable[[], bool], wait_for: WaitFor) -> None:
        """Return as soon as the call is admitted, in the same turn of the event loop.

        The call is checked when no other waits before it, and again whenever another call ends.
        """
        if self.waiting or not is_admitted():
            await self.wait(is_admitted, wait_for)

    async def wait(self, is_admitted: Callable[[], bool], wait_for: WaitFor) -> None:
        """Join the line, and return as soon as the call is admitted."""
        news = asyncio.Event()
        self.waiting.append(news)
        try:
            await wait_for(news.wait)
            while not is_admitted():
                news.clear()
                await wait_for(news.wait)
        finally:
            self.waiting.remove(news)
            self.move_up()

    def leave(self, key: str) -> None:
        """Remove a call that ended, with an answer or without one."""
        if key in self.in_flight:
            self.in_flight.remove(key)
            if self.waiting:
                self.move_up()
            for line in self._others:
                line.move_up()

    def move_up(self) -> None:
        """Let the first call in line check again whether there is room."""
        if self.waiting:
            self.waiting[0].set()
