"""The time from which a provider accepts calls again, read from its answer."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

LONGEST_S = 366 * 86_400.0
"""The longest wait that is believed."""
_SECONDS = re.compile(r"\d+(\.\d+)?", re.ASCII)
_PERIOD = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)", re.ASCII)
_PERIODS = re.compile(f"(?:{_PERIOD.pattern})+", re.ASCII)
_UNIT_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}


def retry_after_s(headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """Seconds until the provider wants to be asked again; None where it says nothing usable.

    `retry-after-ms`, then `retry-after` in seconds or as an HTTP date, else when the last of its
    used-up rate limits is full again. What is negative, past or no number counts as not said.
    """
    now = now or datetime.now(UTC)
    ms, said = _seconds(headers.get("retry-after-ms", "")), headers.get("retry-after", "")
    waits = (None if ms is None else ms / 1000, _seconds(said), _until(said, now))
    named = [wait for wait in waits if wait is not None and _is_believed(wait)]
    return named[0] if named else max(_resets(headers, now), default=None)


def _resets(headers: Mapping[str, str], now: datetime) -> Iterator[float]:
    """For each limit of which nothing is left: seconds until it is full again."""
    for name, value in headers.items():
        remaining = _remaining_name(name)
        if remaining and headers.get(remaining, "").strip() == "0":
            wait = _period(value) if name.startswith("x-") else _until(value, now)
            if wait is not None and _is_believed(wait):
                yield wait


def _remaining_name(name: str) -> str:
    """The header that says what is left of the limit whose reset this header names."""
    if name.startswith("x-ratelimit-reset-"):
        return name.replace("-reset-", "-remaining-")
    if name.startswith("anthropic-ratelimit-") and name.endswith("-reset"):
        return f"{name.removesuffix('reset')}remaining"
    return ""


def _seconds(text: str) -> float | None:
    return float(text) if _SECONDS.fullmatch(text.strip()) else None


def _period(text: str) -> float | None:
    """`1m3.5s` or `250ms` in seconds."""
    if not _PERIODS.fullmatch(text.strip()):
        return None
    return sum(float(number) * _UNIT_S[unit] for number, unit in _PERIOD.findall(text))


def _until(text: str, now: datetime) -> float | None:
    """Seconds to a moment that is written as an HTTP date or as in RFC 3339."""
    for read in (parsedate_to_datetime, datetime.fromisoformat):
        try:
            moment = read(text.strip())
        except (ValueError, OverflowError):
            continue
        aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return (aware - now).total_seconds()
    return None


def _is_believed(seconds: float) -> bool:
    return 0 <= seconds <= LONGEST_S
