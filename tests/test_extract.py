import time
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from loopkit.engine.events import Replied, Suspended
from loopkit.language.states.state import Extract
from loopkit.machine.inputs import extract
from loopkit.text.patterns import (
    PatternError,
    PatternTimeout,
    compile_pattern,
    count_of,
    occurrences,
)
from tests.support import scenario

PLANS = Path(__file__).parent / "data" / "plans"
FIELDS = TypeAdapter(dict[str, Extract])
PATTERNS = {"task": r"^### Task \d+(?:\.\d+)?:", "file": r"^- (?:Create|Modify|Test): `([^`]+)`"}


def fields(text, patterns=PATTERNS, **notation):
    return extract(text, FIELDS.validate_python(notation), patterns)


@pytest.mark.parametrize("name", ["good.md", "good_crlf.md"])
def test_the_fields_of_a_real_plan_are_taken_whatever_its_line_ends(name):
    text = (PLANS / name).read_bytes().decode()
    plan = fields(
        text,
        goal={"section": "Goal"},
        out_of_scope={"section": "out of scope"},
        key_files={"all": "file"},
        first_file={"match": "file"},
        total_tasks={"count": "task", "default": 1},
        estimate={"match": r"^Estimate: (.*)$"},
    )
    assert list(plan) == [
        "goal",
        "out_of_scope",
        "key_files",
        "first_file",
        "total_tasks",
        "estimate",
    ]
    assert str(plan["goal"]).startswith("Let each customer")
    assert str(plan["goal"]).endswith("starve the others.")
    assert plan["out_of_scope"] == "Limits on the size of a single export."
    assert plan["key_files"] == [
        "src/exports/bucket.py",
        "tests/exports/test_bucket.py",
        "src/exports/store.py",
        "tests/exports/test_store.py",
        "migrations/0042_export_bucket.sql",
        "src/http/exports.py",
        "tests/http/test_exports.py",
        "docs/api/exports.md",
    ]
    assert plan["first_file"] == "src/exports/bucket.py"
    assert plan["total_tasks"] == 5
    assert plan["estimate"] is None


@pytest.mark.parametrize(
    ("text", "notation", "value"),
    [
        ("text", {"section": "Goal"}, None),
        ("text", {"section": "Goal", "default": "unknown"}, "unknown"),
        ("## Goal\n\ntext", {"section": "Goal", "default": "unknown"}, "text"),
        ("# Build it", {"section": "Goal"}, None),
        ("# Build it", {"section": "Goal", "or_title": True, "default": "unknown"}, "Build it"),
        ("no title", {"section": "Goal", "or_title": True, "default": "unknown"}, "unknown"),
        ("size 12 of 30", {"match": r"\d+"}, "12"),
        ("size 12 of 30", {"match": r"of (\d+)"}, "30"),
        ("b: 2", {"match": r"a: (\d)|b: (\d)"}, "2"),
        ("ab", {"match": r"a(x)?b"}, "ab"),
        ("none", {"match": r"\d+", "default": "0"}, "0"),
        ("a\nb\nab", {"all": r"^\w$"}, ["a", "b"]),
        ("b a b c a", {"all": r"\w"}, ["b", "a", "c"]),
        ("", {"all": r"\w"}, []),
        ("", {"count": "task"}, 0),
        ("", {"count": "task", "default": 1}, 1),
        ("### Task 1: a\n### Task 2: b", {"count": "task", "default": 1}, 2),
    ],
)
def test_a_field_is_what_its_notation_finds_or_its_default(text, notation, value):
    assert fields(text, value=notation)["value"] == value


def test_a_name_under_patterns_is_used_and_every_other_text_is_the_pattern():
    assert fields("task", patterns={}, n={"count": "task"}) == {"n": 1}
    assert fields("task", patterns=PATTERNS, n={"count": "task"}) == {"n": 0}


@pytest.mark.parametrize(
    ("pattern", "position"),
    [("(", 1), ("[a--b]", 4), (r"\p{Nope}", 8), ("(" * 5000, None), ("(?a)(?u)x", None)],
)
def test_a_text_that_is_no_pattern_is_refused_with_its_place(pattern, position):
    with pytest.raises(PatternError, match="is not a regular expression: ") as caught:
        compile_pattern(pattern)
    assert caught.value.position == position


def test_a_pattern_that_backtracks_for_ever_is_stopped_and_named():
    started = time.process_time()
    with pytest.raises(PatternTimeout, match=r"`\(a\|aa\)\+\$` took longer than 0.2 s"):
        list(occurrences("slow", "a" * 60 + "b", {"slow": "(a|aa)+$"}, limit_s=0.2))
    assert time.process_time() - started < 2


def test_the_time_limit_is_for_all_matches_together():
    matches = occurrences("x", "x" * 1000, limit_s=0.1)
    with pytest.raises(PatternTimeout):
        _slowly(matches)


def _slowly(matches):
    for _match in matches:
        time.sleep(0.03)


@settings(deadline=None)
@given(st.text(alphabet="(|)[]{}*+?\\^$.ab1,:<>=!P-&~ \ud800", max_size=30), st.text(max_size=50))
def test_no_pattern_does_anything_but_match_or_be_refused(pattern, text):
    with suppress(PatternError, PatternTimeout):
        assert all(match.group() in text for match in occurrences(pattern, text, limit_s=0.1))


def test_all_patterns_of_a_text_have_one_time_limit_together():
    """Each of them stays below it; one after the other they would take more than a minute."""
    slow = {f"f{n}": {"count": rf"^(?:a|aa)+$|{n}"} for n in range(300)}
    with pytest.raises(PatternTimeout, match="took longer than 2 s"):
        extract("a" * 27 + "b", FIELDS.validate_python(slow), {})


def test_a_reply_whose_fields_take_too_long_is_kept_and_the_run_suspends(desk):
    machine = """
loopkit: 1
agents: {author: {model: some/model}}
states:
  draft:
    agent: author
    prompt: Write.
    output: {name: plan, fields: {n: {count: '^(a|aa)+$'}}}
    on_error: {content: failed}
    next: done
  done: {final: success, result: plan}
  failed: {final: failure}
"""
    text = "a" * 100 + "b"
    played = desk.play(machine, scenario(agents={"author": [text]}))
    assert played.state.status == "suspended"
    assert (
        "a field could not be taken out of the text: the pattern"
        in played.of(Suspended)[-1].message
    )
    assert [event.text for event in played.of(Replied)] == [text]


def test_an_expression_is_counted_no_further_than_it_has_to_be() -> None:
    assert count_of("[ab]", "abab") == 4
    assert count_of("[ab]", "abab", most=3) == 3
    with pytest.raises(PatternError, match="not a regular expression"):
        count_of("(", "a")
    with pytest.raises(PatternTimeout):
        count_of("(a|aa)+$", "a" * 60 + "b")
