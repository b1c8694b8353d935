"""Regular expressions from a machine file: named, compiled once, and under a time limit.

The dialect is that of the `regex` package; `^` and `$` match at every line, in a JSON Schema only
at the ends of the text.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from regex import Match, Pattern

MAX_LENGTH = 10_000
MAX_SIZE = 50_000
"""The maximum length of a pattern with its repetitions written out, as in its compiled form."""
TIME_LIMIT_S = 2.0
"""The time limit for searching one text with a pattern, in seconds."""


_PART = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\{(\d+)(?:,\d*)?\}|.", re.DOTALL)
"""A character, a set, or a number of repetitions."""


class PatternError(ValueError):
    """The text is not a regular expression; `position` is the index of the character, if known."""

    def __init__(self, pattern: str, reason: str, position: int | None = None) -> None:
        super().__init__(f"`{pattern}` is not a regular expression: {reason}")
        self.reason, self.position = reason, position


class PatternTimeout(Exception):
    """A pattern searched longer than it may; the message names it and the remedy."""

    def __init__(self, pattern: str, limit_s: float) -> None:
        remedy = "write it without repeated groups that can match the same text in several ways"
        super().__init__(f"the pattern `{pattern}` took longer than {limit_s:g} s; {remedy}")


@lru_cache(maxsize=512)
def compile_pattern(pattern: str, *, lines: bool = True) -> Pattern[str]:
    """The compiled pattern, where `^` and `$` match at all `lines` or not; raises PatternError."""
    import regex  # noqa: PLC0415 - costs 40 ms, most commands need none

    if len(pattern) > MAX_LENGTH:
        raise PatternError(f"{pattern[:40]}…", f"it is longer than {MAX_LENGTH:,} characters")
    if _size(pattern) > MAX_SIZE:
        reason = f"with its repetitions it has more than {MAX_SIZE:,} parts; write `*` or `+`"
        raise PatternError(pattern, reason)
    try:
        return regex.compile(pattern, regex.MULTILINE if lines else 0)
    except regex.error as error:
        # The package's stubs do not know its fields.
        reason = getattr(error, "msg", str(error))
        position = getattr(error, "pos", None)
        raise PatternError(pattern, reason, position) from error
    except (ValueError, OverflowError) as error:
        raise PatternError(pattern, str(error)) from error
    except RecursionError as error:
        raise PatternError(pattern, "its groups are nested too deep") from error


def _size(pattern: str) -> int:
    """About how many parts a pattern has with all `{n}` written out; nested ones multiply."""
    groups, last = [0], 0
    for part in _PART.finditer(pattern):
        match part[0][0]:
            case "(":
                groups[-1] += last
                groups.append(last := 0)
            case ")" if len(groups) > 1:
                last += groups.pop()
            case "{" if part[1]:
                # For zero repetitions one is compiled, too.
                last *= max(1, int(part[1][:9]))
            case _:
                groups[-1] += last
                last = 1
    return sum(groups) + last


def count_of(
    pattern: str, text: str, named: Mapping[str, str] | None = None, *, most: int | None = None
) -> int:
    """The number of matches of a pattern, or of the name of one; counted up to `most`, if given.

    Raises as `occurrences` does.
    """
    return sum(1 for _ in islice(occurrences(pattern, text, named), most))


def occurrences(
    pattern: str,
    text: str,
    named: Mapping[str, str] | None = None,
    *,
    limit_s: float = TIME_LIMIT_S,
    since_s: float | None = None,
) -> Iterator[Match[str]]:
    """The matches in order; `pattern` may be a name in `named`.

    Raises PatternError, and PatternTimeout when searching takes longer than `limit_s` seconds.
    Where several patterns have one limit together, `since_s` is when the first of them started.
    """
    source = (named or {}).get(pattern, pattern)
    now_s = time.monotonic()
    until_s = limit_s + (now_s if since_s is None else since_s)
    try:
        for match in compile_pattern(source).finditer(text, timeout=max(until_s - now_s, 0.001)):
            yield match
            # The limit of the package starts anew with each match.
            if time.monotonic() > until_s:
                raise PatternTimeout(source, limit_s)
    except TimeoutError as error:
        raise PatternTimeout(source, limit_s) from error
