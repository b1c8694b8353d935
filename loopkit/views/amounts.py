"""Amounts in words: money, tokens, seconds, moments."""

from __future__ import annotations

import math
import time

from loopkit.engine.records import Usage
from loopkit.text import plural

LEAST_USD = 0.0001
FORGOTTEN_USD = 1e-12
"""Less than this counts as nothing: it is a rounding error of a sum of fractions."""
MINUTE_S, HOUR_S, DAY_S = 60, 3600, 86400


def usage_text(usage: Usage) -> str:
    """`4 calls · 2 tool calls · 1,204 tokens · $0.0210`."""
    of_tools = [plural(usage.tool_calls, "tool call")] if usage.tool_calls else []
    calls = plural(usage.agent_calls, "call")
    return " · ".join((calls, *of_tools, *_tokens(usage), *money(usage)))


def usage_suffix(usage: Usage) -> str:
    """` · 12 s · 1,204 tokens · $0.0210`: the known cost of a call; empty if there is none."""
    seconds = [duration(usage.time_s)] if usage.time_s >= 1 else []
    return "".join(f" · {part}" for part in (*seconds, *usage_parts(usage)))


def usage_parts(usage: Usage) -> list[str]:
    return [*_tokens(usage), *(money(usage) if usage.cost_usd is not None else [])]


def _tokens(usage: Usage) -> list[str]:
    counted = usage.tokens - usage.held_tokens
    return [plural(counted, "token", ",")] if counted else []


def money(usage: Usage) -> list[str]:
    """`$0.0210` and `up to $0.0500 held` in a list, which is empty if nothing was spent.

    An amount is held if it was reserved for a call whose usage was never reported. It counts
    towards the limits, but may not have been spent.
    """
    if usage.cost_usd is None:
        return ["cost unknown"]
    parts = [_usd(usage.cost_usd - usage.held_usd)]
    if usage.held_usd:
        parts.append(f"up to ${max(usage.held_usd, LEAST_USD):.4f} held")
    elif usage.held_tokens:
        parts.append(f"up to {plural(usage.held_tokens, 'token', ',')} held")
    return [part for part in parts if part]


def cost(usage: Usage) -> str:
    """`$0.0006 · up to $0.0047 held` in a table; `unknown` if the cost is unknown."""
    return "unknown" if usage.cost_usd is None else " · ".join(money(usage))


def cost_of(usd: float | None) -> str:
    """An amount of which nothing is held, for a table; `unknown` for None."""
    return "unknown" if usd is None else _usd(usd)


def _usd(amount: float) -> str:
    if amount < FORGOTTEN_USD:
        return ""
    amount = without_noise(amount)
    return f"${amount:.4f}" if amount >= LEAST_USD else f"under ${LEAST_USD:.4f}"


def without_noise(amount: float) -> float:
    """An amount without the errors of a sum of fractions, so that equal ones are shown alike."""
    return round(amount, 12)


def duration(seconds: float) -> str:
    """`0.5 s`, `12 s`, `2 min 5 s`, `1 h 3 min`, rounded down."""
    if seconds < 1:
        return f"{max(seconds, 0):.1f} s"
    whole = int(seconds)
    if whole < MINUTE_S:
        return f"{whole} s"
    if whole < HOUR_S:
        return _in_units(whole // MINUTE_S, "min", whole % MINUTE_S, "s")
    return _in_units(whole // HOUR_S, "h", whole % HOUR_S // MINUTE_S, "min")


def _in_units(most: int, unit: str, rest: int, smaller: str) -> str:
    return f"{most} {unit} {rest} {smaller}" if rest else f"{most} {unit}"


def moment(at: float) -> str:
    """A Unix time in the local time zone, which is named, rounded up to a second."""
    return time.strftime("%Y-%m-%d %H:%M:%S %Z", time.localtime(math.ceil(at)))


def day_and_hour(at: float) -> str:
    """A Unix time in a list, in the local time zone: without its hour if it is of another year."""
    then = time.localtime(at)
    is_near = then.tm_year == time.localtime().tm_year
    return time.strftime("%m-%d %H:%M" if is_near else "%Y-%m-%d", then)


def age(seconds: float) -> str:
    """`12 s`, `5 min`, `3 h`, `2 days`: how long ago, in one unit."""
    for unit, size in (("day", DAY_S), ("h", HOUR_S), ("min", MINUTE_S)):
        if seconds >= size:
            count = int(seconds // size)
            return plural(count, unit) if unit == "day" else f"{count} {unit}"
    return f"{max(int(seconds), 0)} s"


def until(seconds: float) -> str:
    """`in 8 s`: the time that remains, in seconds; `now` if none does."""
    if seconds <= 0:
        return "now"
    return f"in {duration(seconds if seconds < 1 else math.ceil(seconds))}"
