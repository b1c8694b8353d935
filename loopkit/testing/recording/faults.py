"""A failed call → the fault of a scenario: its word, its message, the wait that was asked for."""

from __future__ import annotations

import re
from typing import Any

from loopkit.agents.port import CUT_OFF
from loopkit.agents.scripted import CAPPED, FAULTS, UNREADABLE
from loopkit.drive.retries import JITTER
from loopkit.engine.events import Failed
from loopkit.language import Retry

_NO_QUOTA = r"quota|credit|budget|402"
_WORDS = {
    "transient": (
        (r"429|rate.?limit|too many", "rate_limit"),
        (r"no answer within|time[sd]? ?out|took longer|408|504", "timeout"),
        (r"connect|reach|network|lost", "connection"),
        ("", "server_error"),
    ),
    "fatal": (
        (f"^{CUT_OFF}", CAPPED),
        (_NO_QUOTA, "quota"),
        (r"too long|context", "context_too_long"),
        (r"content policy", "content_policy"),
        (r"401|403|\bkey\b", "authentication"),
        ("", "bad_request"),
    ),
    "content": (("", "refusal"),),
}
"""By class: patterns of messages, each with its word. The first pattern that is found counts."""
_UNAVAILABLE = {
    "transient": (("", "region_outage"),),
    "fatal": ((_NO_QUOTA, "quota"), ("", "missing_model")),
}
"""Patterns and words for a model that is unavailable."""
_NOTICEABLE_S = 0.05
"""A wait that exceeds ours by less than this is ours."""


def fault_of(failed: Failed) -> dict[str, Any]:
    """The word and the message of a failure."""
    words = (_UNAVAILABLE if failed.unavailable else _WORDS)[failed.error_class]
    named = (w for said, w in words if re.search(said, failed.message, re.IGNORECASE))
    word = UNREADABLE if failed.unreadable else next(named)
    is_usual = FAULTS[word] == (failed.error_class, failed.message)
    return {"fault": word} if is_usual else {"fault": word, "message": failed.message}


def provider_wait(wait_s: float, retry: Retry, tries: int) -> str | None:
    """The wait that the provider asked for; None if it is our own after `tries` failures."""
    own = min(retry.backoff * 2.0**tries * (1.0 + JITTER), retry.max_backoff)
    return duration(wait_s) if wait_s > own + _NOTICEABLE_S else None


def duration(seconds: float) -> str:
    """A duration such as `2.5s`; one very close to a tenth of a second is rounded to it."""
    tenths = round(seconds, 1)
    exact = tenths if abs(tenths - seconds) < _NOTICEABLE_S / 2 else seconds
    return f"{exact:.3f}".rstrip("0").rstrip(".") + "s"
