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
LEVELS = Severities(("critical", "high", "low"), "high")


def read(*messages, echoes=(), levels=DEFAULT, **reading):
    form = TextForm(reading=VerdictReading.model_validate(reading), levels=levels)
    return read_verdict("v", messages, form, echoes=echoes)


def verdict(*messages, **reading):
    """The verdict, or none where it cannot be read."""
    found = read(*messages, **reading)
    return found.verdict if isinstance(found, TextVerdict) else None


def texts(found):
    assert isinstance(found, TextVerdict), found
    return [fault.message for fault in found.findings]


# What a verdict looks like


@pytest.mark.parametrize(
    "text",
    [
        "Verdict: PASS",
        "verdict: pass",
        "**Verdict:** PASS",
        "**Verdict**: PASS",
        "**Verdict: PASS**",
        "__Verdict:__ __PASS__",
        "### Final verdict: PASS",
        "Overall verdict — PASS",
        "Verdict: ✅ PASS",
        "✅ Verdict: **PASS** (5 of 5)",
        "Verdict => PASS",
        "Verdict: `PASS`",
        "Verdict: [PASS]",
        'Verdict: "PASS"',
        "Verdict is PASS.",
        "Here's my verdict: PASS",
        "Here is the final verdict: PASS, all is well",
        "Verdict:\nPASS",
        "## Verdict\n\n**PASS**",
        "7. Verdict: PASS",
        "[2026-03-01 10:00] Verdict: PASS",
        "2026-03-01T10:00:00Z Verdict: PASS",
        "- **Verdict:** PASS",
        "| **Verdict** | PASS |",
        "PASS",
        "**PASS**",
        "[PASS]",
        "✅ PASS",
        "## ✅ PASS",
        "VERDICT: PASS",
        "### Final verdict: ✅ `PASS`",
        "My verdict is PASS.",
        "- **Verdict** — PASS (all five criteria)",
        "Verdict: PASS\r\n",
        "```\nVerdict: PASS\n```",
        "~~~markdown\n# Report\nVerdict: PASS\n~~~\n",
    ],
)
def test_a_verdict_may_be_written_in_many_ways(text):
    assert verdict(text) == "pass"
    assert verdict(f"It was checked.\n\n{text}\n\nThat is all.") == (
        None if text[:3] in ("```", "~~~") else "pass"
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "All tests pass.",
        "It would PASS.",
        "The verdict of others was good: PASS",
        "End with Verdict: PASS",
        "If all is met, verdict: PASS",
        "`Verdict: PASS`",
        "> Verdict: PASS",
        "  > **Verdict:** PASS",
        '"Verdict: PASS"',
        "Verdict: PASS?",
        "Verdict: PASS if all criteria are met",
        "Verdict: PASS only when all criteria are met",
        "Verdict: PASSED",
        "Verdict: PASS_WITH_NOTES",
        "Verdict: PASS-with-notes",
        "Verdict: not PASS",
        "Verdict: COMPASS",
        "- PASS",
        "- PASS: it works",
        "1. ✅ PASS",
        "✅ PASS The first criterion",
        "| tests | PASS |",
        "See below.\n\n```\nVerdict: PASS\n```",
        "Here:\n\n- an item\n  ```\n  Verdict: PASS\n  ```",
        "I write:\n\n```\nVerdict: PASS",
        "✅ PASS\n\nand then\n\n❌ FAIL",
        "- Verdict: FAIL, when something is wrong\n- Verdict: PASS, when nothing is",
        "1. **Verdict:** PASS - it is right\n2. **Verdict:** WARN - it could be better",
        "- Verdict: FAIL if it is wrong\n- Verdict: PASS",
        "1. **Verdict:** WARN - it could be better\n2. **Verdict:** PASS - it is right",
    ],
)
def test_what_only_looks_like_a_verdict_is_none(text):
    assert verdict(text) is None


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


def test_the_words_of_the_alphabet_are_known_whole_and_in_any_case():
    words = {"OK": "pass", "NEEDS WORK": "warn", "NOT OK": "fail"}
    assert verdict("Verdict: ok", words=words) == "pass"
    assert verdict("- [FAIL] x\n- [needs work] y\nVerdict: Needs Work", words=words) == "warn"
    assert verdict("- [NOT OK] x\nVerdict: NOT OK", words=words) == "fail"
    words = {"PASS": "pass", "CONCERNS": "warn", "FAIL": "fail", "WAIVED": "pass"}
    assert verdict("Verdict: WAIVED", words=words) == "pass"
    assert verdict("- [CONCERNS] Long.\nVerdict: CONCERNS", words=words) == "warn"


def test_a_word_outside_the_alphabet_is_named_with_those_that_are_in_it():
    words = {"OK": "pass", "NEEDS WORK": "warn", "NOT OK": "fail"}
    assert '"PASS", which is none of "OK"' in read("Verdict: PASS", words=words).reason


def test_a_word_with_signs_of_patterns_in_it_is_that_word():
    words = {"A+": "pass", "(F)": "fail"}
    assert verdict("Verdict: A+", words=words) == "pass"
    assert verdict("Verdict: AA", words=words) is None


def test_an_unknown_last_word_is_not_passed_over():
    assert verdict("Verdict: PASS\n\nVerdict: MAYBE") is None
    assert verdict("Verdict: MAYBE\n\nVerdict: PASS") == "pass"
    assert verdict("Verdict: MAYBE\n\nVerdict: PASS", take="strictest") is None
    assert verdict("Verdict: MAYBE\n\nVerdict: PASS", take="unique") is None


def test_a_labelled_verdict_goes_before_a_word_that_stands_alone():
    assert verdict("Verdict: PASS\n\n### Tests\n\n❌ FAIL") == "pass"


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (r"^Status=(\w+)$", "Status=PASS"),
        (r"^(\d+): (?P<verdict>\w+)$", "12: PASS"),
        (r"(?:ok (PASS)|not ok (FAIL))", "ok PASS"),
    ],
)
def test_a_pattern_finds_the_word_in_its_group(pattern, text):
    assert verdict(text, pattern=pattern) == "pass"


def test_a_quote_is_none_whatever_pattern_finds_it():
    assert verdict("> Verdict: PASS\n\nVerdict? See above.", pattern=r"Verdict: (\w+)") is None
    assert texts(read("> - [FAIL] a\n\nVerdict: PASS", findings=r"\[\w+\] (?P<message>.+)")) == []


def test_a_group_that_took_no_part_is_no_verdict():
    assert verdict("not ok", pattern=r"(?:ok (PASS)|not ok)") is None


def test_a_pattern_that_takes_too_long_is_no_verdict():
    found = read("a" * 5_000 + "!", pattern=r"((?:a+)+)$")
    assert isinstance(found, NoVerdict)


# Which of several counts


@pytest.mark.parametrize(
    ("take", "expected", "named"),
    [
        ("last", "pass", []),
        ("first", "fail", ["x"]),
        ("strictest", "fail", ["x", "y"]),
        ("unique", None, []),
    ],
)
def test_one_of_several_counts_as_it_is_declared(take, expected, named):
    messages = ["- [FAIL] x\nVerdict: FAIL", "- [WARN] y\nVerdict: WARN", "Verdict: PASS"]
    assert verdict(*messages, take=take) == expected
    assert verdict("\n\n".join(messages), take=take) == expected
    assert texts(read(*messages, take=take)) == named if expected else True


def test_one_verdict_said_twice_is_unique():
    assert verdict("Verdict: PASS\n\nAll is well.\n\nVerdict: PASS", take="unique") == "pass"


# Which findings go with it


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Verdict: FAIL\n- [FAIL] a\n\nVerdict: PASS", ("pass", [])),
        ("- [FAIL] a\nVerdict: FAIL\n\n- [PASS] a\nVerdict: PASS", ("pass", [])),
        ("- [FAIL] a\nVerdict: FAIL\n\nVerdict: PASS", ("pass", [])),
        ("Verdict: FAIL\n- [FAIL] a\n\nVerdict: FAIL\n- [FAIL] b", ("fail", ["b"])),
        ("- [FAIL] a\nVerdict: FAIL\n\n- [FAIL] b\nVerdict: FAIL", ("fail", ["b"])),
        ("Verdict: PASS\n\nVerdict: FAIL\n- [FAIL] b", ("fail", ["b"])),
        ("Verdict: PASS\n\n- [FAIL] b\nVerdict: FAIL", ("fail", ["b"])),
        ("Verdict: FAIL\n- [FAIL] a\n- [WARN] b\nVerdict: FAIL", ("fail", ["a", "b"])),
        ("- [FAIL] a\nVerdict: FAIL\n- [FAIL] b", ("fail", ["a", "b"])),
        ("- [FAIL] a\nVerdict: PASS\n\nOn second thought:\n\nVerdict: FAIL", ("fail", ["a"])),
        ("- [FAIL] a\nVerdict: FAIL\n\nVerdict: WARN\n- [WARN] b", ("warn", ["b"])),
    ],
)
def test_of_several_verdicts_each_has_its_own_findings(text, expected):
    found = read(text)
    assert (found.verdict, texts(found)) == expected


@pytest.mark.parametrize(
    "text",
    [
        "Verdict: PASS\n- [FAIL] a",
        "- [FAIL] a\nVerdict: PASS",
        "Verdict: PASS\n- [FAIL] a\nVerdict: PASS",
        "- [FAIL] a\nVerdict: FAIL\n- [FAIL] b\nVerdict: PASS",
        "- [FAIL] a\nVerdict: WARN",
        "- [FAIL] a\nVerdict: PASS\n\nVerdict: PASS",
    ],
)
def test_a_verdict_beside_a_finding_that_rejects_is_none(text):
    found = read(text)
    assert isinstance(found, NoVerdict)
    assert "Make them agree" in found.reason
    assert found.last_resort is None


def test_with_the_strictest_verdict_come_the_findings_of_all():
    found = read("- [FAIL] a\nVerdict: FAIL", "- [WARN] b\nVerdict: WARN", take="strictest")
    assert texts(found) == ["a", "b"]


@pytest.mark.parametrize(
    ("line", "place"),
    [
        ("- [FAIL] src/a.py:12: broken", ("src/a.py", 12)),
        ("- [FAIL] Broken in `a.py:12`.", ("a.py", 12)),
        ("- [FAIL] Broken (see docs/a b/c.md:3)", ("b/c.md", 3)),
        ("- [FAIL] ./bin/run:7 is broken", ("./bin/run", 7)),
        ("- [FAIL] http://host.example:80 is down", ("", None)),
        ("- [FAIL] At 12:30 it broke", ("", None)),
        ("- [FAIL] a.py:0 is odd", ("a.py", None)),
    ],
)
def test_a_finding_names_its_file_and_line(line, place):
    [fault] = read(f"{line}\nVerdict: FAIL").findings
    assert (fault.location, fault.line) == place


@pytest.mark.parametrize(
    "line",
    [
        "- [FAIL] No goal.",
        "* [fail] No goal.",
        "• **[FAIL]** No goal.",
        "- [**FAIL**]: No goal.",
        "- ❌ [FAIL] – No goal.",
        "3. [FAIL] No goal.",
        "[FAIL] No goal.",
        "- [FAIL] No\n  goal.",
    ],
)
def test_a_finding_may_be_decorated(line):
    assert texts(read(f"{line}\nVerdict: FAIL")) == ["No goal."]


@pytest.mark.parametrize(
    "line",
    ["- [x] No goal.", "- [PASS|FAIL] No goal.", "- FAIL No goal.",
     "> - [FAIL] No goal.", "- [FAIL]"],
)  # fmt: skip
def test_what_is_no_finding_is_passed_over(line):
    assert texts(read(f"{line}\nVerdict: PASS")) == []


def test_findings_may_have_the_severities_of_the_machine():
    text = "- [critical] a\n- [FAIL] b\n- [low] c\n- [WARN] d\nVerdict: FAIL"
    found = read(text, levels=LEVELS)
    assert [fault.severity for fault in found.findings] == ["critical", "high", "low", "low"]
    assert isinstance(read("- [high] a\nVerdict: PASS", levels=LEVELS), NoVerdict)
    assert verdict("- [low] a\nVerdict: PASS", levels=LEVELS) == "warn"


def test_a_pattern_for_findings_without_severity_takes_it_from_the_verdict():
    findings = "^! (?P<message>.+)$"
    [fault] = read("! a\nVerdict: FAIL", findings=findings).findings
    assert fault.severity == "error"
    [fault] = read("! a\nVerdict: WARN", findings=findings).findings
    assert fault.severity == "warning"


def test_a_pattern_for_findings_may_name_file_line_severity_and_code():
    findings = (
        r"^(?P<file>\S+)\((?P<line>\d+)\) (?P<severity>\w+) (?P<code>[A-Z]\d+) (?P<message>.+)$"
    )
    said = "tea.py(4) FAIL T1 boils no water\ntea.py(9) PASS T2 pours\nVerdict: FAIL"
    [fault] = read(said, findings=findings).findings
    assert (fault.message, fault.severity) == ("boils no water", "error")
    assert (fault.code, fault.location, fault.line) == ("T1", "tea.py", 4)


def test_a_pattern_for_findings_that_finds_an_unknown_word_leaves_a_doubt():
    findings = r"^(?P<severity>\w+)! (?P<message>.+)$"
    found = read("HMM! a\nVerdict: PASS", findings=findings)
    assert isinstance(found, NoVerdict)
    assert '"HMM", which is none of' in found.reason


# What names nothing


@pytest.mark.parametrize(("word", "severity"), [("FAIL", "error"), ("WARN", "warning")])
def test_what_rejects_or_warns_and_names_nothing_has_its_own_words_at_last(word, severity):
    found = read("The plan has no goal.", f"Verdict: {word}")
    assert isinstance(found, NoVerdict)
    [own] = found.last_resort.findings
    assert own.severity == severity
    assert own.message == f"The plan has no goal.\n\nVerdict: {word}"


def test_a_warning_makes_a_pass_a_warn():
    assert verdict("- [WARN] Long.\nVerdict: PASS") == "warn"


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
