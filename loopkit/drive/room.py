"""Room for a call in the limits: now, after other calls are settled, or for a shorter answer."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping
from typing import Any

from loopkit.agents.model.answer_caps import USUAL_ANSWER, needs_caps
from loopkit.agents.port import AnswerCaps, Request
from loopkit.drive.account import Account, SharedLimitReached
from loopkit.drive.active import ActiveRun
from loopkit.drive.limits import HELD, LimitReached, may_fit, option_to_raise, room_for, time_left
from loopkit.engine.events import Usage
from loopkit.text.command_lines import resume_line
from loopkit.values import Value

Quote = Callable[[Request], Usage]


class Room(Value, frozen=True):
    """The room for a call that fits."""

    reserved: Usage
    left_s: float | None = None
    """Seconds of work that are left for it; None without a limit."""


def find_room(active: ActiveRun, quote: Quote, request: Request) -> Room | None:
    """The room for a call; sets the longest answer if nothing else has set it.

    None if it has to wait for other calls, whose reservations may turn out to be too high. The
    answer is only made shorter if there is no call to wait for. Raises LimitReached and AgentError.
    """
    limits = active.limits
    request.cap, request.caps = None, None
    if not limits and active.account is None:
        request.is_limited = False
        return Room(quote(request))
    request.is_limited = _is_limited(active, limits)
    reserved = quote(request)
    try:
        return _room(active, limits, reserved)
    except LimitReached as reached:
        caps = request.caps
        least = reserved if caps is None else _with_cap(quote, request, caps.least)
        if _may_have_room(active, least):
            return None
        if (
            caps is not None
            and (room := _room_for_shorter(active, quote, request, caps)) is not None
        ):
            return room
        reached.reserved = reserved
        if isinstance(reached, SharedLimitReached):
            reached.account.reached = reached
        raise


def _is_limited(active: ActiveRun, limits: Mapping[str, Any]) -> bool:
    """Whether cost or tokens are limited, so that every answer needs a maximum length."""
    shared = active.account.every_limit if active.account is not None else ()
    return needs_caps(limits) or any(map(needs_caps, shared))


def _room(active: ActiveRun, limits: Mapping[str, Any], reserved: Usage) -> Room:
    """Room in the limits of the run, and in those that it shares; raises LimitReached."""
    left_s = room_for(limits, active.state.committed, reserved) if limits else None
    if active.account is not None:
        left_s = _smaller(left_s, active.account.require_room(reserved))
    return Room(reserved, left_s)


def seconds_left(active: ActiveRun) -> float | None:
    """Seconds of work that are left in the limits of a run, and in those that it shares.

    None without a limit. Raises LimitReached.
    """
    limits = active.limits
    left_s = time_left(limits, active.state.committed) if "time" in limits else None
    return (
        left_s
        if active.account is None
        else _smaller(left_s, _room_in_account(active.account, Usage()))
    )


def out_of_time(active: ActiveRun, spent_s: float = 0.0) -> LimitReached:
    """The limit on time that ended work: the run's own, or one that it shares.

    `spent_s` are seconds of that work that no event has.
    """
    spent, limit = active.state.committed.time_s + spent_s, active.limits.get("time")
    if active.account is not None and (limit is None or spent < limit):
        try:
            _room_in_account(active.account, Usage())
        except LimitReached as reached:
            return reached
    return LimitReached("time", spent if limit is None else limit, spent)


def _room_in_account(account: Account, reserved: Usage) -> float | None:
    """The result of `require_room`; a refusal stops all runs that share the limit."""
    try:
        return account.require_room(reserved)
    except SharedLimitReached as reached:
        reached.account.reached = reached
        raise


def _smaller(first: float | None, second: float | None) -> float | None:
    return min((each for each in (first, second) if each is not None), default=None)


def _may_have_room(active: ActiveRun, most: Usage) -> bool:
    """Whether other calls are in flight, and the call may fit once they are settled."""
    in_flight, account = active.line.in_flight, active.account
    if not in_flight and (account is None or not account.is_calling):
        return False
    fits = may_fit(active.limits, active.state, in_flight, most)
    return fits and (account is None or account.may_have_room(most))


def _room_for_shorter(
    active: ActiveRun, quote: Quote, request: Request, caps: AnswerCaps
) -> Room | None:
    """Room for the longest answer that fits; None if not even the shortest does."""

    def room_at(cap: int) -> Room | None:
        reserved = _with_cap(quote, request, cap)
        try:
            return _room(active, active.limits, reserved)
        except LimitReached:
            return None

    lengths = range(caps.least, caps.usual + 1)
    fitting = bisect_left(lengths, True, key=lambda cap: room_at(cap) is None)
    return room_at(lengths[fitting - 1]) if fitting else None


def _with_cap(quote: Quote, request: Request, cap: int) -> Usage:
    request.cap = cap
    return quote(request)


def room_for_longer(active: ActiveRun, agent: str, quote: Quote, request: Request) -> str:
    """The remedy for an answer that was cut off at a cap: the command line to resume with."""
    # A played answer has no cap; the usual one is used.
    caps, cut_at = request.caps, request.cap or USUAL_ANSWER
    cap = max(2 * cut_at, caps.usual if caps else 0)
    if caps is not None and caps.most is not None:
        cap = min(cap, caps.most)
    if request.fallback:
        return f"write `max_tokens: {cap}` into `params:` of `{request.model}`, among `fallbacks:`"
    longer, run = _with_cap(quote, request, cap), active.state
    arguments = ["--param", f"{agent}.max_tokens={cap}"]
    for name in HELD:
        try:
            only = {name: active.limits.get(name)}
            room_for(only, run.committed, longer)
        except LimitReached as reached:
            arguments += option_to_raise(reached)
    return f"raise it: {resume_line(run.run, *arguments)}"
