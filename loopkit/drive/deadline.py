"""Deadlines: of calls, and of rules by the time that the run has left."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine, Generator
from types import coroutine
from typing import Any, Generic, TypeVar

from loopkit.drive.active import ActiveRun
from loopkit.drive.limits import LimitReached
from loopkit.drive.room import out_of_time, seconds_left
from loopkit.values import Value

T = TypeVar("T")


def limit_time(active: ActiveRun, judging: Coroutine[Any, Any, T]) -> Awaitable[T]:
    """The result of rules, which are cancelled when the time is over; raises LimitReached.

    A verdict that comes too late does not count, so that only the limit is reported. If the run has
    gone on after a limit, the rules have no deadline.
    """
    if active.state.then_used or not (active.limits or active.account):
        return judging
    try:
        left_s = seconds_left(active)
    except LimitReached:
        judging.close()
        raise
    return judging if left_s is None else _stop_after(active, judging, left_s)


async def _stop_after(active: ActiveRun, judging: Coroutine[Any, Any, T], left_s: float) -> T:
    """The result of rules that have `left_s` seconds; raises LimitReached."""
    started = active.clock.monotonic()
    deadline = asyncio.timeout(left_s)
    try:
        async with deadline:
            judged = await judging
    except TimeoutError as error:
        if not deadline.expired():
            raise
        raise _time_limit_reached(active, active.clock.monotonic() - started) from error
    spent_s = active.clock.monotonic() - started
    if spent_s >= left_s:
        raise _time_limit_reached(active, spent_s)
    return judged


class Begun(Value, Generic[T], frozen=True):
    """A coroutine that has run up to its first wait."""

    work: Coroutine[Any, Any, T]
    waits_for: object

    async def within(self, seconds: float) -> T:
        """What the coroutine returns; raises TimeoutError if that takes longer."""
        async with asyncio.timeout(seconds):
            return await _continue(self.work, self.waits_for)


def begin(work: Coroutine[Any, Any, T]) -> T | Begun[T]:
    """What a coroutine returns if it waits for nothing, and so needs no deadline; else the rest."""
    try:
        return Begun(work, work.send(None))
    except StopIteration as ended:
        answer: T = ended.value
        return answer


@coroutine
def _continue(begun: Coroutine[Any, Any, T], waited_for: object) -> Generator[Any, Any, T]:
    """The result of a coroutine that has begun and waits for something."""
    while True:
        try:
            try:
                sent = yield waited_for
            except BaseException as error:  # noqa: BLE001 - it is the coroutine's to handle
                waited_for = begun.throw(error)
            else:
                waited_for = begun.send(sent)
        except StopIteration as ended:
            answer: T = ended.value
            return answer


def _time_limit_reached(active: ActiveRun, spent_s: float) -> LimitReached:
    reached = out_of_time(active, spent_s)
    reached.time_s = spent_s
    return reached
