"""Retries of a failed call: whether, when and of whom it is tried again."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from loopkit.agents.port import AgentError
from loopkit.engine.events import Failed
from loopkit.engine.records import Failure, Usage
from loopkit.engine.state import Task
from loopkit.language.section import ErrorClass, Retry
from loopkit.machine.program import Callee

JITTER = 0.25
"""At most this part of the first wait is added to each, so that runs don't retry in step."""
MOST_UNREAD = 2
"""Tries that may return an unreadable answer; each of them is paid for."""
_MOST_DOUBLINGS = 60
"""With more doublings, a wait would be longer than any run waits."""
IN_DOUBT = Failed(
    key="", error_class="transient", message="the call was in doubt too often", usage=Usage()
)
"""What stands for the failure of a callee that is not known to have failed."""


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


class SessionLost(Exception):
    """A kept session can't go on, and a fresh one may: the call is to be prepared anew."""


@dataclass(eq=False)
class TryFailed(Exception):
    """One try of a call failed, after `spent_s` seconds; the message can be stored."""

    error: AgentError
    message: str
    spent_s: float


def has_try_left(retry: Retry, failures: int, unread: int) -> bool:
    """Whether a call is tried again after `failures`, of which `unread` were unreadable answers."""
    return failures < retry.attempts and unread < MOST_UNREAD


def seconds_to_next_try(retry: Retry, failures: int, named_s: float | None) -> float:
    """The wait after `failures` in a row; the last one may have named a wait of `named_s`."""
    backoff = retry.backoff * 2.0 ** min(failures - 1, _MOST_DOUBLINGS)
    jitter = random.uniform(0.0, retry.backoff * JITTER)  # noqa: S311 - nothing to guess here
    return max(min(backoff + jitter, retry.max_backoff), named_s or 0.0)


def wait_after(task: Task, retry: Retry, now: float) -> float:
    """Seconds until the callee that was asked last may be asked again.

    A wait for the next try was at most `max_backoff`; longer it can only seem because the time of
    day has gone back.
    """
    failed = task.failed or IN_DOUBT
    until = max(failed.retry_at or now, failed.resume_at or now)
    return min(max(0.0, until - now), inf if failed.retry_at is None else retry.max_backoff)


def index_of_last(task: Task, callees: Sequence[Callee]) -> int:
    """The index of the callee that was asked last; a repair may have removed it."""
    return task.fallback if task.fallback < len(callees) else 0


def next_index(task: Task, callees: Sequence[Callee], wait_s: float) -> int:
    """The index of the callee that has the next try, the same one after `wait_s` seconds.

    It is behind the last one if none is left.
    """
    index = index_of_last(task, callees)
    failed = task.failed or IN_DOUBT
    callee = callees[index]
    is_transient = failed.error_class == "transient"
    is_better_elsewhere = failed.unavailable and index + 1 < len(callees)
    is_due = is_transient and wait_s <= callee.retry.max_backoff and not is_better_elsewhere
    # Only the tries of a program can be used up before it is known that its session is lost.
    is_lost = bool(failed.begins_anew)
    tries = task.tries - (is_lost and (callee.retry.attempts == 1 or not callee.model))
    if (is_lost or is_due) and has_try_left(callee.retry, tries, task.unread):
        return index
    return index + 1 if is_transient or failed.unavailable else len(callees)
