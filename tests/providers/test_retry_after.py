"""When a provider says that it is worth asking again, in all the ways that there are."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopkit.agents.model.errors import retry_after_s
from loopkit.text.moments import LONGEST_S

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


def http_date(seconds: float) -> str:
    return format_datetime(NOW + timedelta(seconds=seconds), usegmt=True)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": " 1.5 "}, 1.5),
        ({"retry-after": "0"}, 0.0),
        ({"retry-after": http_date(90)}, 90.0),
        ({"retry-after-ms": "250", "retry-after": "1"}, 0.25),
        ({"retry-after-ms": "soon", "retry-after": "3"}, 3.0),
        ({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "1m3.5s"}, 63.5),
        ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "20ms"}, 0.02),
        (
            {
                "anthropic-ratelimit-requests-remaining": "0",
                "anthropic-ratelimit-requests-reset": "2026-11-21T12:00:30Z",
            },
            30.0,
        ),
    ],
)
def test_it_is_read(headers: dict[str, str], seconds: float) -> None:
    assert retry_after_s(headers, now=NOW) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        *(
            {"retry-after": text}
            for text in (
                "",
                "soon",
                "-5",
                "NaN",
                "inf",
                "1e3",
                "9" * 400,
                "1_0",
                http_date(-60),
            )
        ),
        {"retry-after": http_date(LONGEST_S + 60)},
        {"x-ratelimit-remaining-tokens": "12", "x-ratelimit-reset-tokens": "6m0s"},
        {"x-ratelimit-reset-tokens": "6m0s"},
        {"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "6 apples"},
    ],
)
def test_nonsense_is_not_said(headers: dict[str, str]) -> None:
    assert retry_after_s(headers, now=NOW) is None


def test_of_several_used_up_limits_the_last_counts() -> None:
    headers = {
        "x-ratelimit-remaining-requests": "0",
        "x-ratelimit-reset-requests": "1s",
        "x-ratelimit-remaining-tokens": "0",
        "x-ratelimit-reset-tokens": "6m0s",
    }
    assert retry_after_s(headers, now=NOW) == 360.0


@given(
    st.dictionaries(
        st.sampled_from(
            [
                "retry-after",
                "retry-after-ms",
                "x-ratelimit-reset-a",
                "anthropic-ratelimit-a-reset",
            ]
        ),
        st.text() | st.from_regex(r"[0-9:a-zA-Z+. -]{0,30}") | st.datetimes().map(str),
    )
)
def test_whatever_it_says_it_is_a_wait_or_nothing(headers: dict[str, str]) -> None:
    zeros = {"x-ratelimit-remaining-a": "0", "anthropic-ratelimit-a-remaining": "0"}
    wait = retry_after_s({**headers, **zeros}, now=NOW)
    assert wait is None or 0 <= wait <= LONGEST_S
