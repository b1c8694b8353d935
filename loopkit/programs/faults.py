"""Why a program gave no answer: from the status and the sentence of a provider."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import datetime

from loopkit.programs.port import Failed, Why
from loopkit.text import one_line, printable
from loopkit.text.moments import wait_asked, wait_in

LONGEST_MESSAGE = 500
_ENDED_BY_SIGNAL = 128
_ERROR_LINE = re.compile(r"(?:error|unknown)\b|\[api error", re.IGNORECASE)
_API_ERROR = re.compile(r"\[API Error: .*?\](?=\n|$)", re.DOTALL)
_STATUS = re.compile(r"(?:status:?|API Error:|^) ?\(?([45]\d\d)\b")
_SINCE_1970 = re.compile(r"\|(\d{10,13})\b")


@dataclass(frozen=True)
class Fault:
    """What a record says of a failure."""

    message: str
    status: int | None = None
    why: Why | None = None
    """The cause, where a field of the record says it."""
    wait: str = ""
    """The wait that a field of the record names."""


def _any(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns), re.IGNORECASE)


_WORDS: tuple[tuple[Why, re.Pattern[str]], ...] = (
    ("session_lost", _any(
        r"no (?:saved )?(?:conversation|session|rollout|thread)\b.* (?:found|matche[ds])",
        r"(?:session|conversation|thread)\b.* not found", "resuming session",
    )),
    ("context", _any(
        r"(?:prompt|input)\b.* too long", r"context (?:window|length|limit)", "maximum context",
        "input token count",
    )),
    ("turns", _any(r"reached max.* turns", "turns exceeded")),
    ("quota", _any(
        "quota", "usage limit", "billing", r"credits?\b", r"hit your .*limit",
        r"limit\b.* resets?\b", r"\bhour limit", "weekly limit", "spending limit",
    )),
    ("rate_limit", _any(r"rate[ _-]?limit", "too many requests")),
    ("sign_in", _any(r"\b(?:sign|log)(?:ged)? ?in\b", r"api[ _]?key", "authenticat", r"auth\b")),
    ("refusal", _any("usage policy", "content (?:policy|filter)", "blocked due to", r"\brefus")),
    ("cut_off", _any("max_output_tokens", "output token maximum", "response was truncated")),
    ("server", _any(
        "overloaded", "high demand", "server error", "unavailable", "timed? ?out", "fetch failed",
        "connection", "disconnected", "terminated", "socket", "ECONN",
    )),
)  # fmt: skip
"""The words of each cause; the first that are found count."""
_CERTAIN = ("turns", "session_lost")
"""What a line that is printed beside records says for certain; another may be a warning."""
_BY_STATUS: dict[int, Why] = {401: "sign_in", 402: "quota", 403: "sign_in", 408: "server"}
_TOO_MANY, _SERVER = 429, 500


def failed_by(fault: Fault, now: datetime) -> Failed:
    """What is known of a failure; a clock time counts from `now`."""
    said, told = _sentence(fault.message)
    # What a program adds to the provider's sentence is advice on all that may be the cause.
    said = own[0] if (own := _API_ERROR.search(said)) else said
    status = fault.status or told
    since = _SINCE_1970.search(said)
    wait = wait_in(fault.wait or (since[1] if since else ""), now)
    return Failed(
        why=fault.why or _why(said, status),
        message=one_line(said, LONGEST_MESSAGE),
        status=status,
        retry_after_s=wait_asked(said, now) if wait is None else wait,
    )


def printed_fault(printed: str, exit_code: int, *, began: bool) -> Fault:
    """The failure of a stream without a last record, by what was printed beside its records."""
    lines = [line.strip() for line in printable(printed).splitlines() if line.strip()]
    told = (one for one in lines if _ERROR_LINE.match(one) or _by_words(one) in _CERTAIN)
    said = next(told, "")
    is_refusal_to_start = not began and 0 < exit_code < _ENDED_BY_SIGNAL
    if _by_words(said) in _CERTAIN or (is_refusal_to_start and lines):
        return Fault(said or lines[-1])
    ended = f"it ended with exit code {exit_code} before its last record"
    return Fault(f"{ended}: {said}" if said else ended, why="ended_early")


def _sentence(message: str) -> tuple[str, int | None]:
    """The provider's own sentence, which may be inside JSON, and the status if it is told."""
    start = message.find("{")
    try:
        record = json.JSONDecoder().raw_decode(message, start)[0] if start >= 0 else None
    except (ValueError, RecursionError):
        record = None
    error = record.get("error", record) if isinstance(record, dict) else None
    if isinstance(error, dict) and isinstance(error.get("message"), str):
        said, status = _sentence(error["message"])
        code = error.get("code")
        return said, status or (code if isinstance(code, int) else None)
    found = _STATUS.search(message)
    return message, int(found[1]) if found else None


def _by_words(said: str) -> Why | None:
    return next((why for why, pattern in _WORDS if pattern.search(said)), None)


def _why(said: str, status: int | None) -> Why:
    by_words = _by_words(said)
    if status == _TOO_MANY:
        return "quota" if by_words == "quota" else "rate_limit"
    if status is not None and status >= _SERVER:
        return "server"
    if by_words == "quota" or status not in _BY_STATUS:
        return by_words or "other"
    return _BY_STATUS[status]
