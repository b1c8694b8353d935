"""The line of a run: calls that wait, in order, until what others hold of a limit is settled."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable

WaitFor = Callable[[Callable[[], Awaitable[object]]], Awaitable[None]]


class Line:
    """Who makes a call, and who waits for room; nobody holds anything while he waits."""

    __slots__ = ("_others", "in_flight", "waiting")

    def __init__(self, others: Iterable[Line] = ()) -> None:
        """`others` are those whose room depends on the same limits, as they are at the time."""
        self._others = others
        self.in_flight: list[str] = []
        """Keys of the calls that are being made. Each of them comes to an end."""
        self.waiting: list[asyncio.Event] = []
        """Those who wait for room, and whose turn is the next."""

    async def enter(self, is_admitted: Callable[[], bool], wait_for: WaitFor) -> None:
        """Return as soon as the call is admitted, in the same turn of the event loop.

        It is looked at when nobody waits before it, and again whenever another call ended.
        """
        if self.waiting or not is_admitted():
            await self.wait(is_admitted, wait_for)

    async def wait(self, is_admitted: Callable[[], bool], wait_for: WaitFor) -> None:
        """Return as soon as a call is admitted that was not, or that came behind others."""
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
        """A call came to its end, with an answer or without one."""
        if key in self.in_flight:
            self.in_flight.remove(key)
            if self.waiting:
                self.move_up()
            for line in self._others:
                line.move_up()

    def move_up(self) -> None:
        """Let the first who waits look again whether there is room."""
        if self.waiting:
            self.waiting[0].set()
