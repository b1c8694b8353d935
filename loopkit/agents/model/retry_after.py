"""The time from which a provider accepts calls again, read from its answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

from loopkit.text.moments import LONGEST_S, moment_in, seconds_in


def retry_after_s(headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """Seconds until the provider accepts the next call; None where it says nothing usable.

    `retry-after-ms`, then `retry-after` in seconds or as an HTTP date, else when the last of its
    used-up rate limits is full again. A negative, past or non-numeric value is ignored.
    """
    now = now or datetime.now(UTC)
    ms, retry_after = seconds_in(headers.get("retry-after-ms", "")), headers.get("retry-after", "")
    waits = (None if ms is None else ms / 1000, seconds_in(retry_after), _until(retry_after, now))
    plausible = [wait for wait in waits if wait is not None and _is_plausible(wait)]
    return plausible[0] if plausible else max(_resets(headers, now), default=None)


def _resets(headers: Mapping[str, str], now: datetime) -> Iterator[float]:
    """For each used-up limit, the seconds until it is full again."""
    for name, value in headers.items():
        remaining = _remaining_name(name)
        if remaining and headers.get(remaining, "").strip() == "0":
            wait = seconds_in(value) if name.startswith("x-") else _until(value, now)
            if wait is not None and _is_plausible(wait):
                yield wait


def _remaining_name(name: str) -> str:
    """The header with the rest of the limit whose reset this header names; else empty."""
    if name.startswith("x-ratelimit-reset-"):
        return name.replace("-reset-", "-remaining-")
    if name.startswith("anthropic-ratelimit-") and name.endswith("-reset"):
        return f"{name.removesuffix('reset')}remaining"
    return ""


def _until(text: str, now: datetime) -> float | None:
    moment = moment_in(text, now)
    return None if moment is None else (moment - now).total_seconds()


def _is_plausible(seconds: float) -> bool:
    return 0 <= seconds <= LONGEST_S
