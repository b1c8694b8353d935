"""How long a provider asks to wait: in its headers, in its error, or in its words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

from loopkit.text.moments import LONGEST_S, moment_in, period_at, seconds_in

_NAME = re.compile(
    r"(?:retry-?(?:after|in|delay)|resets?-?(?:after|in|at)|\bwait(?:-time)?|estimated-time|^seconds)"
    r"(?:-?(ms|milli\w*)|-?s|-?seconds)?$"
)
"""How the names of headers and fields end that tell a wait or a moment."""
_A_MOMENT = 1e9
"""From which on a number counts from 1970."""
_EMPTY = re.compile(r"\b(?:r|remaining)=0\b.{0,60}?\b(?:t|reset)=(\d{1,9})\b", re.ASCII)
_ASKED = re.compile(
    r"\b(?:try|retry(?:ing)?|again|wait|resets?|refresh(?:es|ed)?|available)\b[^.\d]{0,60}?(?=\d)",
    re.IGNORECASE,
)
_ISO = re.compile(r"\d{4}-\d\d-\d\d[T ][\d:.]{4,20}\d(?: ?(?:Z|UTC|[+-]\d\d:?\d\d))?", re.ASCII)
_BARE = re.compile(r"\d+(?:\.\d+)?(?![\w.]\w)", re.ASCII)


def retry_after_s(
    named: Mapping[str, str],
    told: str = "",
    now: datetime | None = None,
    *,
    is_limit: bool = False,
) -> float | None:
    """Seconds until the provider accepts the next call, where it says something plausible.

    Of headers and fields (`named`, in lower case with hyphens) what names a wait counts first, then
    when the last of the used-up limits is full again, then the words; where a limit is reached
    (`is_limit`), then one that does not say what is left.
    """
    now = now or datetime.now(UTC)
    sources = (_direct(named, now), _resets(named, now), _in_words(told, now))
    first = (max(waits) for source in sources if (waits := list(source)))
    unsaid = max(_resets(named, now, left="0"), default=None) if is_limit else None
    return next(first, unsaid)


def _direct(named: Mapping[str, str], now: datetime) -> Iterator[float]:
    """The wait that is named as such, in milliseconds first, which are more exact."""
    found = [(match, value) for name, value in named.items() if (match := _NAME.search(name))]
    for match, value in sorted(found, key=lambda one: one[0][1] is None):
        if (wait := _wait(value, now, 0.001 if match[1] else 1.0)) is not None:
            yield wait
            return


def _resets(named: Mapping[str, str], now: datetime, left: str = "") -> Iterator[float]:
    """For each used-up limit, the seconds until it is full again; `left` if it does not say."""
    for name, value in named.items():
        rest = named.get(name.replace("reset", "remaining"), left).strip()
        text = value if "reset" in name and (rest in ("0", "0.0") or rest[:1] == "-") else ""
        if name == "ratelimit" and (empty := _EMPTY.search(value)):
            text = empty[1]
        if (wait := _wait(text, now)) is not None:
            yield wait


def _in_words(told: str, now: datetime) -> Iterator[float]:
    """The first wait in a message: `try again in 1m26.5s`, `resets at 2026-11-21T12:00Z`."""
    for asked in _ASKED.finditer(told):
        moment = _ISO.match(told, asked.end())
        _, end = period_at(told, asked.end())
        bare = _BARE.match(told, asked.end()) if asked[0].lower().endswith("after: ") else None
        wait = _wait((moment or bare or [told[asked.end() : end]])[0], now)
        if wait is not None:
            yield wait
            return


def _wait(text: str, now: datetime, unit: float = 1.0) -> float | None:
    """The seconds that a text names, or those until the moment that it names."""
    seconds = seconds_in(text)
    if seconds is None or seconds >= _A_MOMENT:
        moment = moment_in(text.replace(" UTC", "Z"), now)
        seconds = None if moment is None else (moment - now).total_seconds()
    else:
        seconds *= unit
    return seconds if seconds is not None and 0 <= seconds <= LONGEST_S else None
