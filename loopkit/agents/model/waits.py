"""How long a provider asks to wait: in its headers, in the record of its error, or in its words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

from loopkit.text.moments import LONGEST_S, moment_in, period_at, seconds_in

NAMES: Mapping[str, float] = {
    "retry-after-ms": 0.001, "retryafterms": 0.001, "retry-after": 1, "retryafter": 1,
    "retry-after-seconds": 1, "retryafterseconds": 1, "retrydelay": 1, "resets-in-seconds": 1,
    "resets-at": 1, "reset-at": 1, "estimated-time": 1,
}  # fmt: skip
"""Headers and fields that name a wait or a moment, the first that is usable first; in seconds."""
_A_MOMENT = 1e9
"""From which on a number is a moment since 1970."""
_EMPTY = re.compile(r"\b(?:r|remaining)=0\b.{0,60}?\b(?:t|reset)=(\d{1,9})\b", re.ASCII)
_ASKED = re.compile(
    r"\b(?:try|retry(?:ing)?|again|wait|resets?|available in)\b[^.\d]{0,60}?(?=\d)", re.IGNORECASE
)
_ISO = re.compile(
    r"\d{4}-\d\d-\d\d[T ][\d:.]{5,20}(?<=\d)(?: ?(?:Z|UTC|[+-]\d\d:?\d\d))?", re.ASCII
)


def retry_after_s(
    named: Mapping[str, str], told: str = "", now: datetime | None = None
) -> float | None:
    """Seconds until the provider accepts the next call; None where it says nothing usable.

    `named` are headers and fields, in lower case with hyphens. What names a wait counts first, then
    when the last of the used-up limits is full again, then the words. A negative, past or absurd
    value is ignored.
    """
    now = now or datetime.now(UTC)
    direct = (_wait(named.get(name, ""), now, unit) for name, unit in NAMES.items())
    found = next((wait for wait in direct if wait is not None), None)
    if found is None:
        found = max(_resets(named, now), default=None)
    return next(_in_words(told, now), None) if found is None else found


def _resets(named: Mapping[str, str], now: datetime) -> Iterator[float]:
    """For each used-up limit, the seconds until it is full again."""
    for name, value in named.items():
        rest = named.get(name.replace("reset", "remaining"), "")
        text = value if "reset" in name and rest.strip() == "0" else ""
        if name == "ratelimit" and (empty := _EMPTY.search(value)):
            text = empty[1]
        if (wait := _wait(text, now)) is not None:
            yield wait


def _in_words(told: str, now: datetime) -> Iterator[float]:
    """The waits that a message asks for: "try again in 1m26.5s", "resets at 2026-11-21T12:00Z"."""
    for asked in _ASKED.finditer(told):
        moment = _ISO.match(told, asked.end())
        _, end = period_at(told, asked.end())
        wait = _wait(moment[0] if moment else told[asked.end() : end], now)
        if wait is not None:
            yield wait


def _wait(text: str, now: datetime, unit: float = 1.0) -> float | None:
    """The seconds that a text names, or those until the moment that it names."""
    seconds = seconds_in(text)
    if seconds is None or seconds >= _A_MOMENT:
        moment = moment_in(text.replace(" UTC", "Z"), now)
        seconds = None if moment is None else (moment - now).total_seconds()
    else:
        seconds *= unit
    return seconds if seconds is not None and 0 <= seconds <= LONGEST_S else None
