"""Retries: how long to wait before a failed call is made again."""

from __future__ import annotations

import random

from loopkit.agents.port import AgentError
from loopkit.engine.failure import Failure
from loopkit.language import Retry
from loopkit.language.agents.calls import ErrorClass

JITTER = 0.25
"""At most this part of the first wait is added to each, so that runs don't retry in step."""
MOST_UNREAD = 2
"""Tries that may return an unreadable answer; each of them is paid for."""
_MOST_DOUBLINGS = 60
"""With more doublings, a wait would be longer than any run waits."""


class CallFailed(Exception):
    """A call got no reply, retries included."""

    def __init__(
        self,
        error_class: ErrorClass,
        message: str,
        *,
        remedy: str = "",
        resume_at: float | None = None,
    ) -> None:
        super().__init__(message)
        self.failure = Failure(error_class, message, remedy, resume_at)


class TryFailed(Exception):
    """One try of a call failed, after `spent_s` seconds."""

    def __init__(self, error: AgentError, message: str, key: str, spent_s: float) -> None:
        super().__init__(message)
        self.error = error
        self.message = message
        self.key = key
        self.spent_s = spent_s


def has_try_left(retry: Retry, failures: int, unread: int) -> bool:
    """Whether a call is tried again after `failures`, of which `unread` were unreadable answers."""
    return failures < retry.attempts and unread < MOST_UNREAD


def seconds_to_next_try(retry: Retry, failures: int, named_s: float | None) -> float:
    """The wait after `failures` in a row; the last one may have named a wait of `named_s`."""
    backoff = retry.backoff * 2.0 ** min(failures - 1, _MOST_DOUBLINGS)
    jitter = random.uniform(0.0, retry.backoff * JITTER)  # noqa: S311 - nothing to guess here
    return max(min(backoff + jitter, retry.max_backoff), named_s or 0.0)
