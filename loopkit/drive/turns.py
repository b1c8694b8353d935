"""Turns: whose try is the next one for a piece of work, after what came of those before.

Only what the run's events say counts, so that a resumed run goes on with whom it had come to.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

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
    """The place of the next one to ask, once it may be asked; raises CallFailed where nobody is.

    The wait after a failure is worked out from the time of day where an earlier life of the run
    has seen it; whoever has just seen it names it, because the time of day may jump. `passed` are
    those who were passed over without a try.
    """
    if task in active.state.refused:
        raise CallFailed("fatal", f"the call to `{agent}` is in doubt and is not made again")
    known = active.state.tasks.get(task)
    if known is None:
        return 0
    index = known.fallback if known.fallback < len(callees) else 0
    is_last = index + 1 == len(callees)
    wait_s = _wait(known, active.clock.now()) if wait_s is None else wait_s
    if _has_a_try(known, callees[index].retry, wait_s, is_last=is_last):
        await active.pause(wait_s)
        return index
    if is_last or not _may_help(known):
        raise nobody_left(known, callees, passed)
    return index + 1


def _wait(task: Task, now: float) -> float:
    """Seconds until the one who was asked last may be asked again."""
    failed = task.failed
    until = max(failed.retry_at or now, failed.resume_at or now) if failed else now
    return max(0.0, until - now)


def _may_help(task: Task) -> bool:
    """Whether somebody else may answer what the one who was asked last did not."""
    failed = task.failed
    return failed is None or failed.error_class == "transient" or failed.unavailable


def _has_a_try(task: Task, retry: Retry, wait_s: float, *, is_last: bool) -> bool:
    """Whether the one who was asked last is asked again."""
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
    """Why nobody else is asked: the last class of error, what came of each, the earliest time."""
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
