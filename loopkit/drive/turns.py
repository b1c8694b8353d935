"""Turns: which callee has the next try for a piece of work, given the tries before.

Only the run's events count, so that a resumed run continues with the same callee.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf

from loopkit.drive.active import ActiveRun
from loopkit.drive.retries import CallFailed, has_try_left
from loopkit.engine.tasks import GivenUp, Task
from loopkit.language import Retry
from loopkit.machine.callees import Callee


async def take_turn(
    active: ActiveRun,
    task: str,
    agent: str,
    callees: Sequence[Callee],
    wait_s: float | None = None,
    passed: Sequence[GivenUp] = (),
) -> int:
    """Wait until the next callee may be asked, and return its index; CallFailed if none is left.

    The wait after a failure in an earlier process is computed from the time of day. After a failure
    in this process, `wait_s` gives it, because the time of day may jump. `passed` are the callees
    that were skipped without a try.
    """
    if task in active.state.refused:
        raise CallFailed("fatal", f"the call to `{agent}` is in doubt and is not made again")
    known = active.state.tasks.get(task)
    if known is None:
        return 0
    index = known.fallback if known.fallback < len(callees) else 0
    is_last = index + 1 == len(callees)
    wait_s = _wait_s(known, callees[index].retry, active.clock.now()) if wait_s is None else wait_s
    if _is_asked_again(known, callees[index].retry, wait_s, is_last=is_last):
        await active.pause(wait_s)
        return index
    if is_last or not _may_help(known):
        raise nobody_left(known, callees, passed)
    return index + 1


def _wait_s(task: Task, retry: Retry, now: float) -> float:
    """Seconds until the callee that was asked last may be asked again.

    A wait for the next try was at most `max_backoff`; longer it can only seem because the time of
    day has gone back.
    """
    failed = task.failed
    until = max(failed.retry_at or now, failed.resume_at or now) if failed else now
    is_awaited = failed is not None and failed.retry_at is not None
    return min(max(0.0, until - now), retry.max_backoff if is_awaited else inf)


def _may_help(task: Task) -> bool:
    """Whether another callee may answer after the last one failed."""
    failed = task.failed
    return failed is None or failed.error_class == "transient" or failed.unavailable


def _is_asked_again(task: Task, retry: Retry, wait_s: float, *, is_last: bool) -> bool:
    """Whether the callee that was asked last is asked again."""
    failed = task.failed
    if not has_try_left(retry, task.tries, task.unread):
        return False
    if failed is None:
        return True
    if failed.error_class != "transient" or (failed.unavailable and not is_last):
        return False
    return wait_s <= retry.max_backoff


def nobody_left(
    known: Task | None, callees: Sequence[Callee], passed: Iterable[GivenUp]
) -> CallFailed:
    """The error if no callee is left: the last class, all failures, the earliest resume time."""
    tried = list(known.given_up) if known else []
    if known and known.tries:
        tried.append(GivenUp(known.fallback, known.tries, known.failed))
    by_place = {one.fallback: one for one in (*tried, *passed) if one.fallback < len(callees)}
    lost = [by_place[place] for place in sorted(by_place)]
    named = [one.failed.resume_at for one in lost if one.failed is not None]
    return CallFailed(
        lost[-1].failed.error_class if lost[-1].failed else "transient",
        "; ".join(_failure_line(one, callees) for one in lost),
        resume_at=min((time for time in named if time is not None), default=None),
    )


def _failure_line(lost: GivenUp, callees: Sequence[Callee]) -> str:
    failed = lost.failed
    message = failed.message if failed else "the call was in doubt too often"
    if lost.tries > 1 and (failed is None or failed.error_class == "transient"):
        message = f"{message} ({lost.tries} tries)"
    return f"fallback `{callees[lost.fallback].model}`: {message}" if lost.fallback else message
