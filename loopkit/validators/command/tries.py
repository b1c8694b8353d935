"""Repeated tries: a program without a verdict is run again, within its rule's budget."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from loopkit.language import Retry
from loopkit.validators.fault import CannotJudge

Result = TypeVar("Result")


class Unfinished(CannotJudge):
    """The program was cut off, or left no readable report: another run may succeed."""


async def run_until_verdict(
    retry: Retry,
    once: Callable[[], Awaitable[Result]],
    pause: Callable[[float], Awaitable[None]],
) -> Result:
    """Return what `once` returns, in as many tries as `retry` allows; raises CannotJudge.

    Only a transient error or Unfinished is tried again. The wait before it doubles up to
    `max_backoff`; a longer one that the program asks for counts, if it is within `max_backoff`.
    """
    tries = 1
    while True:
        try:
            return await once()
        except CannotJudge as error:
            may_help = error.error_class == "transient" or isinstance(error, Unfinished)
            backoff = min(retry.backoff * 2.0 ** (tries - 1), retry.max_backoff)
            wait = max(backoff, error.retry_after_s or 0.0)
            if not may_help or tries >= retry.attempts or wait > retry.max_backoff:
                reason = f"{error.reason} ({tries} tries)" if tries > 1 else error.reason
                raise CannotJudge(reason, error.error_class, error.retry_after_s) from error
        await pause(wait)
        tries += 1
