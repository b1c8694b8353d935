"""Deadlines of calls: what is there at once needs none, and what waits is given up in time."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest

from loopkit.drive.calls import Begun, begin

T = TypeVar("T")


async def within(seconds: float, work: Coroutine[Any, Any, T]) -> T:
    answer = begin(work)
    assert isinstance(answer, Begun)
    async with asyncio.timeout(seconds):
        return await answer


async def test_an_answer_that_is_there_at_once_needs_no_deadline() -> None:
    async def prompt() -> str:
        return "answer"

    assert begin(prompt()) == "answer"


async def test_an_answer_that_takes_longer_than_it_may_is_given_up() -> None:
    gone: list[str] = []

    async def slow() -> str:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            gone.append("cancelled")
            raise
        return "too late"

    with pytest.raises(TimeoutError):
        await within(0.01, slow())
    assert gone == ["cancelled"]


async def test_an_answer_may_wait_several_times_and_fail_in_its_own_way() -> None:
    async def patient(*, fails: bool) -> str:
        await asyncio.sleep(0)
        try:
            await asyncio.wait_for(asyncio.Event().wait(), 0.01)
        except TimeoutError:
            await asyncio.sleep(0)
        if fails:
            raise LookupError("no answer")
        return "answer"

    assert await within(60, patient(fails=False)) == "answer"
    with pytest.raises(LookupError, match="no answer"):
        await within(60, patient(fails=True))
