"""Waits and moments as programs and servers write them: seconds, periods, dates, clock times."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from functools import partial
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

LONGEST_S = 366 * 86_400.0
"""The longest plausible wait."""
_UNIT_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}
_UNITS = r"ms|milliseconds?|seconds?|secs?|s|minutes?|mins?|m|hours?|hrs?|hr|h|days?|d|weeks?|w"
_COUNTS = {
    "half an": 0.5, "half a": 0.5, "an": 1.0, "a": 1.0, "one": 1.0, "two": 2.0, "three": 3.0,
    "four": 4.0, "five": 5.0, "six": 6.0, "seven": 7.0, "eight": 8.0, "nine": 9.0, "ten": 10.0,
    "eleven": 11.0, "twelve": 12.0,
}  # fmt: skip
_COUNTED = "|".join(_COUNTS)
_SECONDS = re.compile(r"\d{1,15}(\.\d{1,9})?", re.ASCII)
_PERIOD = re.compile(
    rf"(?:(?P<figure>\d{{1,9}}(?:\.\d{{1,9}})?) ?|(?P<count>{_COUNTED}) )"
    rf"(?P<unit>{_UNITS})(?P<half> and a half)?(?![a-z])",
    re.ASCII | re.IGNORECASE,
)
_BETWEEN = re.compile(r"(?:,? and |,? ?)", re.ASCII)
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_CLOCK = re.compile(
    r"(?:(?P<month>[a-z]{3})[a-z]{0,6}\.? (?P<day>\d{1,2})(?:st|nd|rd|th)?,?"
    r"(?: (?P<year>\d{4}),?)?(?: at)? )?"
    r"(?P<hour>\d{1,2})(?::(?P<minute>\d\d)(?::\d\d)?)? ?(?P<half>[ap]\.?m\.?)?"
    r"(?: \(?(?P<zone>[a-z_]+(?:/[a-z_+\-\d]+){0,2})\)?)?",
    re.ASCII | re.IGNORECASE,
)
_DAY = re.compile(r"^(?:today|(tomorrow)),?(?: at)?(?: |$)|,? (?:today|(tomorrow))$", re.IGNORECASE)
_BEFORE = re.compile(r"(?:(?:in|at|on|after|about|around|approximately) |~ ?)*", re.IGNORECASE)
_AFTER = re.compile(r"""[.,;!?]+(?=[\s"')\]]|$)|["\n\\\])]""")
"""The end of what a moment takes of a sentence, or of the text of a JSON record."""
_MOST_CHARS = 200
_ASKED = re.compile(
    r"\b(?:try|retry(?:ing)?|again|wait|resets?|refresh(?:es|ed)?|available)\b[^.\d]{0,60}?"
    rf"(?=\d|\b(?:(?:{_COUNTED}) (?:{_UNITS})|tomorrow)\b"
    rf"|\b(?:{'|'.join(_MONTHS)})[a-z]{{0,6}}\.? \d)",
    re.ASCII | re.IGNORECASE,
)
NOON = 12
_UNIX_S, _UNIX_MS = 1e9, 1e12
"""From which on a number is a moment, in seconds and in milliseconds since 1970."""
_LATE_S = 300.0
"""A clock time that was so short ago is that of today, and not of tomorrow."""


def seconds_in(text: str) -> float | None:
    """The seconds of a wait: `3600`, `1m3.5s`, `2 days 17 hours`, `half an hour`; else none."""
    text = text.strip()
    if _SECONDS.fullmatch(text):
        return float(text)
    seconds, end = period_at(text)
    return seconds if text and end == len(text) else None


def period_at(text: str, start: int = 0) -> tuple[float, int]:
    """The seconds of the period that begins here, and where it ends: at its start if it is none."""
    total, at, end = 0.0, start, start
    while found := _PERIOD.match(text, at):
        word = found["unit"].lower()
        unit = "ms" if word.startswith(("ms", "milli")) else word[0]
        count = float(found["figure"]) if found["figure"] else _COUNTS[found["count"].lower()]
        total += (count + (0.5 if found["half"] else 0.0)) * _UNIT_S[unit]
        end = found.end()
        at = between.end() if (between := _BETWEEN.match(text, end)) else end
    return total, end


def moment_in(text: str, now: datetime) -> datetime | None:
    """The moment that a text names: Unix time, ISO 8601, an HTTP date, or the next such hour.

    A moment without a zone is in the zone of `now`.
    """
    readers: tuple[Callable[[str], datetime], ...] = (
        _unix, parsedate_to_datetime, _iso, partial(_at_hour, now=now),
    )  # fmt: skip
    for read in readers:
        try:
            moment = read(text.strip())
        except (ValueError, OverflowError, OSError, ZoneInfoNotFoundError):
            continue
        return moment if moment.tzinfo else moment.replace(tzinfo=now.tzinfo)
    return None


def wait_in(text: str, now: datetime, *, is_bare: bool = True) -> float | None:
    """Seconds of the wait, or until the moment, that a text begins with: `an hour.`, `at 3pm`.

    None if it is not plausible. With `is_bare` a number without a unit counts: seconds, or since
    1970.
    """
    for part in _beginnings(text.strip()):
        if _SECONDS.fullmatch(part) and not is_bare:
            continue
        moment = moment_in(part, now)
        wait = seconds_in(part) if moment is None else max((moment - now).total_seconds(), 0.0)
        if wait is not None:
            return wait if wait <= LONGEST_S else None
    return None


def wait_asked(told: str, now: datetime) -> float | None:
    """Seconds of the first wait that a message asks for: `try again in 20s`, `resets at 3pm`."""
    asked = _ASKED.finditer(told)
    waits = (wait_in(told[a.end() :], now, is_bare=a[0].lower().endswith("after: ")) for a in asked)
    return next((wait for wait in waits if wait is not None), None)


def _beginnings(text: str) -> Iterator[str]:
    """The parts from the start of a text that can be all of a wait, the longest first."""
    text = _BEFORE.sub("", text, 1)
    if len(text) > _MOST_CHARS:
        text = text[:_MOST_CHARS].rpartition(" ")[0]
    yield text
    for end in reversed([found.start() for found in _AFTER.finditer(text)]):
        yield text[:end]
    _, end = period_at(text)
    if not text[end : end + 1].isalnum():
        yield text[:end]


def _unix(text: str) -> datetime:
    number = float(text) if _SECONDS.fullmatch(text) else 0.0
    if number < _UNIX_S:
        raise ValueError(f"no time since 1970: {text}")
    return datetime.fromtimestamp(number / 1000 if number >= _UNIX_MS else number, UTC)


def _iso(text: str) -> datetime:
    return datetime.fromisoformat(text.replace(" UTC", "Z"))


def _at_hour(text: str, now: datetime) -> datetime:
    """The next time that a clock shows this, on the day that is named or any; raises ValueError."""
    day = _DAY.search(text)
    is_tomorrow = day is not None and bool(day[1] or day[2])
    clock = _CLOCK.fullmatch(_DAY.sub("", text, 1) or ("0:00" if is_tomorrow else ""))
    if clock is None or not (clock["minute"] or clock["half"] or is_tomorrow):
        raise ValueError(f"no time of a clock: {text}")
    here = now.astimezone(ZoneInfo(clock["zone"])) if clock["zone"] else now
    at = here.replace(hour=_hour(clock), minute=int(clock["minute"] or 0), second=0, microsecond=0)
    if clock["month"]:
        month = _MONTHS.index(clock["month"].lower()) + 1
        at = at.replace(year=int(clock["year"] or at.year), month=month, day=int(clock["day"]))
        is_next_year = not clock["year"] and at < here - timedelta(days=LONGEST_S / 86_400 / 2)
        return at.replace(year=at.year + 1) if is_next_year else at
    is_next = is_tomorrow or at < here - timedelta(seconds=_LATE_S)
    return at + timedelta(days=1) if is_next else at


def _hour(clock: re.Match[str]) -> int:
    hour, half = int(clock["hour"]), clock["half"]
    if half and not 1 <= hour <= NOON:
        raise ValueError(f"no hour of half a day: {hour}")
    return hour % NOON + NOON * (half[0] in "pP") if half else hour
