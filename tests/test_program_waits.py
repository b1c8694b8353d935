"""A program that says when it can be asked again: read from its output, and waited for."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopkit.engine.events import Failed, Suspended
from loopkit.programs import PROGRAMS
from loopkit.programs.port import Counted
from loopkit.text.moments import LONGEST_S, wait_asked, wait_in
from tests.support import Desk, Played

NOW = datetime(2026, 11, 22, 19, 30, tzinfo=timezone(timedelta(hours=1)))
HOUR = 3600.0


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        ("90", 90), (" 1.5 ", 1.5), ("45s", 45), ("250ms", 0.25), ("1m3.5s", 63.5),
        ("10h25m14s", 10 * HOUR + 25 * 60 + 14),
        ("2 days 17 hours 14 minutes", 65 * HOUR + 14 * 60),
        ("5 days, 3 hours and 2 minutes", 123 * HOUR + 120), ("1 week", 168 * HOUR),
        ("1795375800", HOUR), ("1795375800000", HOUR),
        ("2026-11-22T19:30:00Z", HOUR), ("2026-11-22T20:30:00", HOUR), ("2026-11-22 20:30", HOUR),
        ("2026-11-22T14:30:00-05:00", HOUR), ("Sun, 22 Nov 2026 19:30:00 GMT", HOUR),
        ("8:30pm", HOUR), ("8:30 PM", HOUR), ("20:30", HOUR), ("9 p.m.", 1.5 * HOUR),
        ("12am", 4.5 * HOUR), ("12pm", 16.5 * HOUR), ("3pm", 19.5 * HOUR),
        ("12:50am (America/Los_Angeles)", 14 * HOUR + 20 * 60), ("7:30pm UTC", HOUR),
        ("Nov 24 at 1pm (Europe/Berlin)", 41.5 * HOUR), ("Nov 24th, 2026 1:00 PM", 41.5 * HOUR),
        ("Jan 1, 7:30pm", 40 * 24 * HOUR),
        ("an hour", HOUR), ("An hour.", HOUR), ("half an hour", HOUR / 2), ("two hours.", 2 * HOUR),
        ("one hour and ten minutes", HOUR + 600), ("an hour and a half", 1.5 * HOUR),
        ("in about 2 hours.", 2 * HOUR), ("a minute or so", 60), ("1h 30m", 1.5 * HOUR),
        ("2 hours, or upgrade to Pro. It takes a minute.", 2 * HOUR), ("2 days!", 48 * HOUR),
        ("5 days, 3 hours. Visit example.org, please.", 123 * HOUR),
        ("tomorrow", 4.5 * HOUR), ("tomorrow at 9", 13.5 * HOUR), ("at 9pm tomorrow.", 25.5 * HOUR),
        ("Tomorrow at 9:15 am.", 13.75 * HOUR), ("tomorrow, 8:30pm UTC", 26 * HOUR),
        ("today at 8:30pm", HOUR),
        ("at 8:30 PM. Upgrade to Pro", HOUR), ('8:30pm"}', HOUR), ("2026-11-22 19:30 UTC.", HOUR),
        ("12:50am (America/Los_Angeles)\\nUpgrade", 14 * HOUR + 20 * 60),
        # What has just been is now, and no day away.
        ("19:28", 0), ("Nov 22, 7pm", 0), ("2026-11-22T12:00:00Z", 0),
    ],
)  # fmt: skip
def test_a_wait_is_read_however_it_is_written(said: str, seconds: float) -> None:
    assert wait_in(said, NOW) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "said",
    ["", "soon", "-5", "NaN", "1e3", "9" * 400, "25:00", "13pm", "0am", "3pm (Nowhere/Land)",
     "3pm (US)", "3pm (../../etc/passwd)", "Feb 30, 1pm", "Nov 40 at 1pm", "999999999999999",
     "6 apples", "7 m6", "Nov 24, 2099 1pm", "2 years", "a while", "an houri",
     "as soon as possible", "429 Too Many Requests", "3pm (US). Or so", "tomorrow or so", "today"],
)  # fmt: skip
def test_what_is_no_wait_is_none(said: str) -> None:
    assert wait_in(said, NOW) is None


@given(
    st.text()
    | st.from_regex(r"[0-9:a-zA-Z+,. -]{0,30}")
    | st.datetimes().map(str)
    | st.from_regex(r"[A-Z][a-z]{2} [0-9]{1,2}(, [0-9]{4})?,? [0-9]{1,2}(:[0-9]{2})? ?[ap]m")
)
def test_whatever_it_says_it_is_a_wait_or_nothing(said: str) -> None:
    wait = wait_in(said, NOW)
    assert wait is None or 0 <= wait <= LONGEST_S


@pytest.mark.parametrize(
    ("told", "seconds"),
    [
        ("Usage limit: try again in an hour", HOUR),
        ("limit reached · resets 8:30pm (Europe/Berlin)", HOUR),
        ("Rate limited. Suggested retry after 3600s.]\nPlease wait and try again later.", HOUR),
        ("Try again at a later time, in 20s.", 20), ("Wait until tomorrow at 9.", 13.5 * HOUR),
        ("Please retry after: 20", 20), ("Try again at Nov 24th, 2026 1:00 PM.", 41.5 * HOUR),
        ("Weekly limit reached · resets Nov 24 at 1pm (Europe/Berlin)", 41.5 * HOUR),
        ("retry limit, last status: 429", None), ("Try again in a while", None), ("", None),
    ],
)  # fmt: skip
def test_the_wait_that_a_message_asks_for_is_found(told: str, seconds: float | None) -> None:
    assert wait_asked(told, NOW) == (None if seconds is None else pytest.approx(seconds))


def test_a_long_text_is_read_at_once() -> None:
    started = time.monotonic()
    assert wait_in("1h" * 500_000 + "x", NOW) is None
    assert wait_in("1 " * 500_000, NOW) is None
    assert wait_in("1. " * 500_000 + "an hour", NOW) is not None
    assert wait_in("in " * 500_000, NOW) is None
    assert time.monotonic() - started < 20


MACHINE = """
loopkit: 1
agents:
  coder:
    command: PROGRAM
    errors: ERRORS
    retry: {attempts: 3, backoff: 10ms, max_backoff: 2s}
    price_per_run: 0
states:
  work: {agent: coder, prompt: Mend it., output: notes, on_error: {content: failed}, next: done}
  done: {final: success, result: notes}
  failed: {final: failure}
"""


def play(desk: Desk, errors: str, said: str, code: int = 1, stream: str = "stderr") -> Played:
    """A program that says this the first time, and does its work from then on."""
    program = (
        "import pathlib, sys\n"
        "again = pathlib.Path('again'); first = not again.exists(); again.touch()\n"
        f"if first: print({said!r}, file=sys.{stream}); sys.exit({code})\n"
        "print('done')\n"
    )
    argv = json.dumps([sys.executable, "-c", program])
    return desk.play(MACHINE.replace("PROGRAM", argv).replace("ERRORS", errors))


CLAUDE = r"[{stdout: 'limit reached\|(?P<resume_at>\d+)', class: transient}]"
CLAUDE_NOW = r"[{stdout: 'resets (?P<resume_at>[^\n]+)', class: transient}]"
CODEX = r"[{stderr: 'try again in (?P<retry_after>[^.\n]+)', class: transient}]"


@pytest.mark.parametrize(
    ("errors", "said", "stream", "code", "seconds"),
    [
        (CLAUDE, "Usage limit reached|MOMENT", "stdout", 1, 7200),
        (CODEX, "You've hit your limit. Wait or try again in 2 hours 5 minutes.", "stderr", 1,
         7500),
        (CODEX, "try again in 9 seconds\ntry again in 1 hour", "stderr", 0, 3600),
        (CODEX.replace("[^.\\n]", "."), "try again in an hour. Or upgrade.", "stderr", 1, 3600),
    ],
    ids=["a moment", "a wait", "the last one, with exit code 0", "in words"],
)  # fmt: skip
def test_the_run_is_suspended_until_then(
    desk: Desk, errors: str, said: str, stream: str, code: int, seconds: float
) -> None:
    started = time.time()
    told = said.replace("MOMENT", str(int(started + seconds)))
    played = play(desk, errors, told, code, stream)
    (suspended,) = played.of(Suspended)
    assert suspended.reason == "transient"
    assert suspended.resume_at == pytest.approx(started + seconds, abs=60)
    assert len(played.of(Failed)) == 1


def test_an_hour_of_the_clock_is_the_next_one(desk: Desk) -> None:
    soon = datetime.now(UTC) + timedelta(hours=3)
    said = f"You've hit your limit · resets {soon:%I:%M%p} (UTC)".replace(" 0", " ")
    (suspended,) = play(desk, CLAUDE_NOW, said, stream="stdout").of(Suspended)
    assert suspended.resume_at == pytest.approx(soon.timestamp(), abs=90)


def test_it_goes_on_when_it_is_resumed(durable: Desk) -> None:
    played = play(durable, CODEX, "try again in 3 days")
    again = durable.resume(played.state.run)
    assert (again.outcome, again.result["notes"]) == ("done", "done\n")


def test_a_short_wait_is_waited_for(desk: Desk) -> None:
    started = time.monotonic()
    played = play(desk, CODEX, "try again in 1 second")
    assert played.outcome == "done"
    assert time.monotonic() - started >= 1
    assert len(played.of(Failed)) == 1


def test_where_the_group_caught_nothing_it_is_tried_as_usual(desk: Desk) -> None:
    played = play(desk, CODEX, "try again in a while")
    assert (played.outcome, len(played.of(Failed))) == ("done", 1)


def test_a_fatal_end_says_when_too(desk: Desk) -> None:
    played = play(desk, CODEX.replace("transient", "fatal"), "try again in 5 hours")
    (suspended,) = played.of(Suspended)
    assert suspended.reason == "fatal"
    assert suspended.resume_at == pytest.approx(time.time() + 5 * HOUR, abs=60)


MESSAGES = [
    ("claude", "Claude AI usage limit reached|1795375800", HOUR),
    (
        "claude",
        "You've hit your session limit · resets 12:50am (America/Los_Angeles)",
        14 * HOUR + 20 * 60,
    ),
    (
        "codex",
        "You've hit your usage limit. Upgrade to Pro (https://openai.com/chatgpt/pricing) or try "
        "again in 2 days 17 hours 14 minutes.",
        65 * HOUR + 14 * 60,
    ),
    ("codex", "You've hit your usage limit. To get more access, try again at 8:30 PM.", HOUR),
    ("codex", "You've hit your usage limit, try again at Nov 24th, 2026 1:00 PM.", 41.5 * HOUR),
]
RECORDS: dict[str, Callable[[str], dict[str, object]]] = {
    "claude": lambda said: {"type": "result", "is_error": True, "result": said},
    "codex": lambda said: {"type": "turn.failed", "error": {"message": said}},
}


@pytest.mark.parametrize(("program", "said", "seconds"), MESSAGES)
def test_what_coding_programs_say_of_their_quota_is_read(
    program: str, said: str, seconds: float
) -> None:
    reader = PROGRAMS[program].reader()
    reader.feed(json.dumps(RECORDS[program](said)))
    failed = reader.finish("", 1, Counted(), NOW).failed
    assert failed is not None
    assert (failed.why, failed.retry_after_s) == ("quota", pytest.approx(seconds))


JUDGED = """
loopkit: 1
limits: {revisions: 1}
states:
  draft: {render: Tea., output: notes, next: check}
  check:
    validate: notes
    by: RULES
    transitions: [{guard: valid, target: done}, {revise: draft}, {target: failed}]
  done: {final: success, result: notes}
  failed: {final: failure}
"""


def rule(said: str, mark: str = "again", **keys: object) -> dict[str, object]:
    """A program that says this the first time, and passes from then on."""
    program = (
        f"import pathlib, sys\nagain = pathlib.Path({mark!r})\n"
        f"if not again.exists(): again.touch(); print({said!r}, file=sys.stderr); sys.exit(1)\n"
    )
    return {"command": [sys.executable, "-c", program], "errors": json.loads(JUDGING), **keys}


JUDGING = r'[{"stderr": "try again in (?P<retry_after>[^.\\n]+)", "class": "transient"}]'


def judge(desk: Desk, *rules: object) -> Played:
    return desk.play(JUDGED.replace("RULES", json.dumps(rules)))


def test_a_program_that_judges_suspends_the_run_until_it_can_be_asked_again(durable: Desk) -> None:
    started = time.time()
    retry = {"attempts": 3, "backoff": "10ms"}
    played = judge(durable, rule("Quota: try again in 3 hours", retry=retry))
    (suspended,) = played.of(Suspended)
    assert suspended.reason == "transient"
    assert suspended.resume_at == pytest.approx(started + 3 * HOUR, abs=60)
    # It was asked once: trying at once would only be refused again.
    assert len(suspended.commands) == 1
    again = durable.resume(played.state.run)
    assert (again.outcome, again.result["notes"]) == ("done", "Tea.")


def test_a_program_that_judges_is_waited_for_where_the_wait_is_short(desk: Desk) -> None:
    started = time.monotonic()
    retry = {"attempts": 2, "backoff": "10ms", "max_backoff": "5s"}
    played = judge(desk, rule("try again in 1 second", retry=retry))
    assert played.outcome == "done"
    assert time.monotonic() - started >= 1
    assert not played.of(Suspended)


def test_without_a_try_left_a_short_wait_is_told_as_well(desk: Desk) -> None:
    (suspended,) = judge(desk, rule("try again in 5 seconds")).of(Suspended)
    assert suspended.resume_at == pytest.approx(time.time() + 5, abs=30)


@pytest.mark.parametrize("together", [True, False], ids=["one validator", "two"])
def test_of_several_programs_the_longest_wait_counts(desk: Desk, together: bool) -> None:
    rules = [rule(f"try again in {hours} hours", str(hours)) for hours in (2, 5, 3)]
    text = JUDGED.replace("RULES", "[quota]" if together else json.dumps(rules))
    if together:
        text = text.replace("states:", f"validators: {{quota: {json.dumps(rules)}}}\nstates:", 1)
    (suspended,) = desk.play(text).of(Suspended)
    assert suspended.resume_at == pytest.approx(time.time() + 5 * HOUR, abs=60)


def test_a_baseline_without_quota_says_when_to_go_on(desk: Desk) -> None:
    (suspended,) = judge(desk, rule("try again in 2 hours", baseline=True)).of(Suspended)
    assert "no baseline" in suspended.message
    assert suspended.resume_at == pytest.approx(time.time() + 2 * HOUR, abs=60)


def test_a_defect_counts_whatever_another_program_waits_for(desk: Desk) -> None:
    played = judge(desk, rule("try again in 2 hours", retry={"attempts": 1}), {"min_chars": 99})
    assert played.outcome == "failed"
    assert not played.of(Suspended)
