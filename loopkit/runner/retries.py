"""When a failed call is tried again: after a growing wait, or when the provider says.

tenacity holds the loop. What a run has tried already is known from its events,
so that one that was killed and resumed goes on inside the same budget.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from tenacity import (
    AsyncRetrying,
    RetryCallState,
    retry_if_exception,
    stop_after_attempt,
    wait_exponential,
    wait_random,
)
from tenacity.stop import stop_base

from loopkit.agents.port import AgentError
from loopkit.definition import Retry
from loopkit.findings import ErrorClass

JITTER = 0.25
"""At most this part of the first wait is added to each, so that runs don't retry in step."""


class CallFailed(Exception):
    """A call that brought no reply, retries included."""

    def __init__(
        self, error_class: ErrorClass, message: str, resume_at: float | None = None
    ) -> None:
        super().__init__(message)
        self.error_class = error_class
        self.message = message
        self.resume_at = resume_at


class TryFailed(Exception):
    """One try of a call failed; it took so many seconds."""

    def __init__(self, error: AgentError, message: str, key: str, spent_s: float) -> None:
        super().__init__(message)
        self.error = error
        self.message = message
        self.key = key
        self.spent_s = spent_s


Told = Callable[[TryFailed, float], Awaitable[None]]


def retrying(
    retry: Retry, tries: int, *, again: Told, over: Told, sleep: Callable[[float], Awaitable[None]]
) -> AsyncRetrying:
    """A loop for one call that failed `tries` times before; its function raises TryFailed.

    `again` hears of a failure and the seconds until the next try, before it waits; `over` of the
    one after which none follows, and has to raise. Waits beyond `max_backoff` are not waited for.
    """
    first = retry.backoff * 2.0**tries
    backoff = wait_exponential(first) + wait_random(0.0, first * JITTER)

    def wait(state: RetryCallState) -> float:
        asked = _failure(state).error.retry_after_s
        return max(min(backoff(state), retry.max_backoff), asked or 0.0)

    async def before_sleep(state: RetryCallState) -> None:
        await again(_failure(state), state.upcoming_sleep)

    async def out_of_tries(state: RetryCallState) -> None:
        await over(_failure(state), state.upcoming_sleep)

    return AsyncRetrying(
        sleep=sleep,
        retry=retry_if_exception(_is_transient),
        wait=wait,
        stop=stop_after_attempt(retry.attempts - tries) | _Beyond(retry.max_backoff),
        before_sleep=before_sleep,
        retry_error_callback=out_of_tries,
    )


class _Beyond(stop_base):
    """Stop where the next wait would be longer than a process should stay for."""

    def __init__(self, longest_s: float) -> None:
        self._longest_s = longest_s

    def __call__(self, retry_state: RetryCallState) -> bool:
        return retry_state.upcoming_sleep > self._longest_s


def _is_transient(error: BaseException) -> bool:
    return isinstance(error, TryFailed) and error.error.error_class == "transient"


def _failure(state: RetryCallState) -> TryFailed:
    failure = state.outcome.exception() if state.outcome else None
    assert isinstance(failure, TryFailed)
    return failure
