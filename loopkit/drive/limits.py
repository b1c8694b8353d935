"""Limits and reservations: refuses a call whose maximum does not fit into what is left."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from math import ceil
from typing import Any

from loopkit.engine.events import Ran, RefusedCall, Usage
from loopkit.engine.failure import Failure
from loopkit.engine.state import RunState
from loopkit.text.command_lines import resume_line

COUNTED = ("agent_calls", "tool_calls", "tokens", "cost_usd")

HELD = {"tokens": "held_tokens", "cost_usd": "held_usd"}
"""The field of a usage with the part of an amount that is only reserved."""

SMALL_USD = 0.0001
"""Amounts below this are shown with more digits: four of them would all be zeros."""


class LimitReached(Exception):
    """A limit leaves no room for the next piece of work."""

    reserved = Usage()
    """The maximum of the next call."""
    call: RefusedCall | None = None
    """The call that was not made, if it was a call."""
    commands: tuple[Ran, ...] = ()
    """The runs of command validators in the same round."""
    time_s = 0.0
    """Seconds of the unfinished work that no call accounts for."""

    def __init__(
        self,
        name: str,
        limit: float,
        spent: float,
        asked: float | None = 0.0,
        held: float = 0.0,
        owner: str = "",
    ) -> None:
        """`owner` says whose limit it is, if it is not the run's own."""
        self.name = name
        self.limit = limit
        self.spent = spent
        self.asked = asked
        self.held = held
        self.owner = owner
        whose = f" of {owner}" if owner else ""
        used, most = _amount(name, spent - held), _amount(name, limit)
        message = f"the limit `{name}`{whose} leaves no room: {used} of {most} used"
        if held:
            # Of calls in flight, in doubt or uncounted: it leaves no room, but nobody spent it yet.
            message += f", up to {_amount(name, held)} held"
        if asked is None:
            message += ", and what the next call can cost is not known"
        elif asked and spent < limit:
            message += f", and the next call can take up to {_amount(name, asked)}"
        super().__init__(message)

    def failure(self, run: str) -> Failure:
        """The failure of the work that the limit ended."""
        return Failure("limit", str(self), self.remedy(run), refused=self.call)

    def remedy(self, run: str) -> str:
        """What a person can do about it."""
        if self.asked is None and self.call is not None:
            price = resume_line(run, "--price", f"{self.call.agent}=USD")
            return f"with what a million of its tokens cost instead of USD: {price}"
        return f"raise it: {resume_line(run, *option_to_raise(self))}"


class AnswerCutOff(LimitReached):
    """An answer was cut off at the cap that it got because of a limit."""

    def __init__(self, message: str, remedy: str) -> None:
        Exception.__init__(self, f"`max_tokens` reached: {message}")
        self._remedy = remedy
        self.owner = ""

    def remedy(self, run: str) -> str:
        return self._remedy


def room_for(limits: Mapping[str, Any], committed: Usage, reservation: Usage) -> float | None:
    """The seconds of work that are left for a call, or None without a limit.

    Raises LimitReached if the maximum of the call does not fit.
    """
    for name in COUNTED:
        if (limit := limits.get(name)) is None:
            continue
        spent, asked = getattr(committed, name), getattr(reservation, name)
        if asked == 0:
            continue
        # An unknown cost is never free: it can't be shown to fit.
        if spent is None or asked is None or spent + asked > limit + 1e-9:
            held = getattr(committed, HELD.get(name, ""), 0)
            raise LimitReached(name, limit, spent or 0, asked, held if spent else 0)
    return time_left(limits, committed)


def may_fit(
    limits: Mapping[str, Any], run: RunState, in_flight: Collection[str], most: Usage
) -> bool:
    """Whether a call that does not fit now can, once the calls in flight are settled."""
    try:
        room_for(limits, least_usage(run, in_flight), most)
    except LimitReached:
        return False
    return True


def least_usage(run: RunState, in_flight: Collection[str]) -> Usage:
    """The least that a run can have used once its calls in flight are settled.

    A call in doubt, or one that is not in flight, will not be settled: it counts as used.
    """
    least = run.usage
    for key, intent in run.open_calls.items():
        reserved = intent.reserved
        if key in in_flight:
            # It may turn out to cost nothing, but stays a call.
            reserved = reserved.replace(tokens=0, cost_usd=0.0)
        least = least.plus(reserved)
    return least


def time_left(limits: Mapping[str, Any], committed: Usage) -> float | None:
    """The seconds of work that are left, or None without a limit; raises LimitReached at zero."""
    limit = limits.get("time")
    if limit is None:
        return None
    if committed.time_s >= limit:
        raise LimitReached("time", limit, committed.time_s)
    return float(limit - committed.time_s)


def option_to_raise(reached: LimitReached) -> tuple[str, str]:
    """The option that raises a limit, so that the next call fits."""
    enough = _sufficient_limit(reached)
    if reached.name == "cost_usd":
        return "--max-cost", enough
    amount = f"{enough}s" if reached.name == "time" else enough
    return "--set", f"limits.{reached.name}={amount}"


def _sufficient_limit(reached: LimitReached) -> str:
    """A new limit in which the next call fits: twice the old one, or more."""
    needed = max(2 * reached.limit, reached.spent + (reached.asked or 0.0))
    if reached.name != "cost_usd":
        return str(max(ceil(needed), 1))
    return f"{max(ceil(needed * 100), 1) / 100:.2f}"


def _amount(name: str, number: float) -> str:
    """An amount with the unit of its limit: `$0.0050`, `19,011`, `0.4 s`."""
    if name == "cost_usd":
        return f"${number:.6f}" if 0 < number < SMALL_USD else f"${number:,.4f}"
    plain = f"{number:,.4f}".rstrip("0").rstrip(".")
    return f"{plain} s" if name == "time" else plain
