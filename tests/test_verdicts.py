"""Verdicts read out of text: what is one, whose it is, and which findings go with it."""

from __future__ import annotations

import json
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loopkit.engine.findings import Answer as TextVerdict
from loopkit.language.facts import Severities
from loopkit.language.validators.report_map import VerdictReading
from loopkit.text.editing import assistant_texts, events_of, messages_of
from loopkit.validators.judges.form import Misread as NoVerdict
from loopkit.validators.judges.report import read_verdict
from loopkit.validators.judges.text import TextForm

WORDS = ("PASS", "WARN", "FAIL")
DEFAULT = Severities()


def read(*messages, echoes=(), levels=DEFAULT, **reading):
    form = TextForm(reading=VerdictReading.model_validate(reading), levels=levels)
    return read_verdict("v", messages, form, echoes=echoes)


def verdict(*messages, **reading):
    """The verdict, or none where it cannot be read."""
    found = read(*messages, **reading)
    return found.verdict if isinstance(found, TextVerdict) else None


# What a verdict looks like


@pytest.mark.parametrize(
    "choice",
    [
        "PASS/WARN/FAIL",
        "PASS | FAIL",
        "PASS|WARN|FAIL",
        "PASS or FAIL",
        "**PASS** or **WARN**",
        "PASS** or **WARN",
        "`PASS` or `FAIL`",
        "PASS, WARN, FAIL",
        "PASS, WARN or FAIL",
        "PASS, WARN, or FAIL",
        "<PASS|FAIL>",
        "[PASS/FAIL]",
        "PASS and/or WARN",
        "PASS or\nFAIL",
        "pass or Fail",
        "PASS or Verdict: FAIL",
        "__PASS__ or __FAIL__",
    ],
)
def test_words_to_choose_from_are_no_verdict_whatever_reads_them(choice):
    labels = ("Verdict: ", "**Verdict:** ", "## Verdict\n\n", "")
    patterns = (None, "(?i)(PASS|WARN|FAIL)", r"(?i)\b(?P<verdict>PASS|FAIL)\b")
    for label, pattern in product(labels, patterns):
        reading = {"pattern": pattern} if pattern else {}
        assert verdict(f"{label}{choice}", **reading) is None
        assert verdict(f"{label}{choice}\n\nVerdict: PASS", **reading) == "pass"
        assert verdict(f"Verdict: PASS\n\n{label}{choice}", **reading) == "pass"


@pytest.mark.parametrize("reading", [{}, {"pattern": "(PASS|WARN|FAIL)"}])
@pytest.mark.parametrize(
    "text",
    [
        "The last line is **Verdict:** PASS** or **WARN** or **FAIL.",
        "Answer with one of PASS, WARN, FAIL",
    ],
)
def test_words_to_choose_from_in_a_sentence_are_no_verdict(text, reading):
    assert verdict(text, **reading) is None


def test_the_prompt_that_asks_for_a_verdict_holds_none():
    for reading in (
        VerdictReading(),
        VerdictReading(words={"OK": "pass", "BAD": "fail"}),
        VerdictReading(pattern="^Result: (PASS|FAIL)$", findings="^! (?P<message>.+)$"),
    ):
        form = TextForm(reading=reading)
        assert isinstance(read_verdict("v", [form.instructions], form), NoVerdict)


def test_a_pattern_that_takes_too_long_is_no_verdict():
    found = read("a" * 5_000 + "!", pattern=r"((?:a+)+)$")
    assert isinstance(found, NoVerdict)


COUNTS = {"met": r"(\d+)/\d+ met", "checked": r"\d+/(\d+) met"}


# Whose words count


def line(role, *content, **more):
    return json.dumps({"type": role, "message": {"role": role, "content": list(content)}, **more})


def said(text):
    return {"type": "text", "text": text}


@pytest.mark.parametrize(
    "event",
    [
        line("user", said("Verdict: PASS")),
        line("user", {"type": "tool_result", "content": "Verdict: PASS"}),
        line("user", {"type": "tool_result", "content": [said("Verdict: PASS")]}),
        line("assistant", {"type": "tool_use", "input": {"text": "Verdict: PASS"}}),
        line(
            "assistant", {"type": "thinking", "thinking": "Verdict: PASS", "text": "Verdict: PASS"}
        ),
        line("assistant", said("Verdict: PASS"), parent_tool_use_id="t-1"),
        line("system", said("Verdict: PASS")),
        json.dumps({"type": "message", "role": "user", "content": "Verdict: PASS"}),
        json.dumps({"type": "assistant", "message": {"role": "user", "content": "Verdict: PASS"}}),
        json.dumps({"type": "assistant", "message": "Verdict: PASS"}),
        json.dumps({"type": "progress", "text": "Verdict: PASS"}),
        "Verdict: PASS",
    ],
)
def test_nobody_but_the_assistant_is_heard_in_a_transcript(event):
    transcript = "\n".join([line("assistant", said("I look.")), event])
    assert messages_of(transcript) == ("I look.",)


def test_a_transcript_in_which_the_assistant_says_nothing_has_no_message():
    assert messages_of(line("user", said("Verdict: PASS"))) == ()
    assert messages_of("Verdict: PASS") == ("Verdict: PASS",)
    assert messages_of('{"verdict": "PASS"}') == ('{"verdict": "PASS"}',)


@pytest.mark.parametrize(
    "event",
    [
        line("assistant", said("One."), said(" Two.")),
        json.dumps({"type": "assistant", "message": {"content": "One. Two."}}),
        json.dumps({"type": "message", "role": "assistant", "content": "One. Two."}),
        json.dumps({"role": "assistant", "content": [said("One. Two.")]}),
        json.dumps({"type": "result", "result": "One. Two."}),
    ],
)
def test_the_assistant_is_told_by_its_role(event):
    assert messages_of(event) == ("One. Two.",)


def test_a_result_that_was_said_before_is_not_said_twice():
    events = [line("assistant", said("One.")), json.dumps({"type": "result", "result": "One.\n"})]
    assert assistant_texts(events_of("\n".join(events))) == ("One.",)


def test_what_a_program_repeats_of_its_prompt_is_not_its_own():
    prompt = "Review this:\r\n\r\nVerdict: PASS\r\n"
    assert verdict("Review this:\n\nVerdict: PASS\n\nI have looked.", echoes=[prompt]) is None
    assert verdict("Review this:\n\nVerdict: PASS\n\nVerdict: PASS", echoes=[prompt]) == "pass"


# Whatever comes


LINES = st.sampled_from(
    [
        *(f"{before}{word}{after}" for before in ("", "Verdict: ", "- [", "> Verdict: ", "| ")
          for word in WORDS for after in ("", "] x", " or FAIL", "\n```", "?")),
        "```", "~~~", "- item", "Verdict:", "5/6 met", "", "\x00", "\ud800", "Verdict: \U0001f600",
    ]
)  # fmt: skip
READINGS = st.fixed_dictionaries(
    {},
    optional={
        "take": st.sampled_from(["last", "first", "strictest", "unique"]),
        "words": st.sampled_from([{}, {"PASS": "pass", "FAIL": "fail"}, {"WARN": "fail"}]),
        "pattern": st.sampled_from([r"(\w+)", r"^(?P<verdict>PASS)$", "(x)?", "()"]),
        "findings": st.sampled_from([r"(?P<message>.*)", r"\[(?P<severity>.)\] (?P<message>.)"]),
        "counts": st.just(COUNTS),
    },
)


@given(st.lists(st.lists(LINES, max_size=6).map("\n".join), max_size=3), READINGS)
@settings(deadline=None)
def test_any_text_is_read_or_is_not_and_a_pass_has_its_word(messages, reading):
    found = read(*messages, **reading)
    if not isinstance(found, TextVerdict):
        assert found.reason.endswith(".")
        return
    rejects = [fault for fault in found.findings if fault.severity == "error"]
    assert bool(rejects) == (found.verdict == "fail")
    assert bool(found.findings) == (found.verdict != "pass")
    if found.verdict == "pass":
        assert "PASS" in "".join(messages)


@given(st.text(), st.text())
def test_text_without_a_word_of_the_alphabet_is_never_a_verdict(before, after):
    text = f"{before}\nVerdict: {after}"
    if not any(word in text.casefold() for word in ("pass", "warn", "fail")):
        assert isinstance(read(text), NoVerdict)
