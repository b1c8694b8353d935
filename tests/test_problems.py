"""Problems: how a mistake is shown, and which word was meant."""

import copy
import cProfile
import pickle
import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopkit.document.problems import (
    Problem,
    ProblemsFound,
    Span,
    closest,
    did_you_mean,
    is_slip,
    render,
)


def at(line, column, end_column, *, end_line=None, file="plan.yaml"):
    return Span(file, line, column, end_line or line, end_column)


def shown(line, column, end_column):
    """Return the source row and the caret row for a place on the only line of a file."""
    problem = Problem("x", "y", at(1, column, end_column))
    _, _, source, carets = render([problem], {"plan.yaml": line}).split("\n")
    return source, carets


def display_columns(text):
    return sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text)


PLAN = "loopkit: 1\nagents:\n  architect: {}\n\n\n\n  reviewer:\n    temprature: 0.2\n"


def test_a_problem_is_shown_with_its_place_its_line_and_its_remedy():
    problem = Problem(
        "unknown-field",
        "unknown field `temprature`",
        at(8, 5, 15),
        path="agents.reviewer.temprature",
        help="did you mean `temperature`?",
    )
    assert render([problem], {"plan.yaml": PLAN}) == (
        "error[unknown-field]: unknown field `temprature`\n"
        "  --> plan.yaml:8:5   (agents.reviewer.temprature)\n"
        "8 |     temprature: 0.2\n"
        "  |     ^^^^^^^^^^\n"
        "  help: did you mean `temperature`?"
    )


@pytest.mark.parametrize(
    ("problem", "shown"),
    [
        (Problem("a", "b"), "error[a]: b"),
        (Problem("a", "b", path="c", help="d"), "error[a]: b\n  (c)\n  help: d"),
        (Problem("a", "b", help="write\n  a: 1"), "error[a]: b\n  help: write\n          a: 1"),
        (Problem("a", "b", severity="warning"), "warning[a]: b"),
        (Problem("a", "b", at(99, 2, 3)), "error[a]: b\n  --> plan.yaml:99:2"),
        (Problem("a", "b", at(9, 2, 3, file="c")), "error[a]: b\n  --> c:9:2"),
    ],
)
def test_a_problem_without_a_line_to_show_has_all_the_rest(problem, shown):
    assert render([problem], {"plan.yaml": PLAN}) == shown


def test_further_places_follow_with_their_labels_in_one_gutter():
    text = "key: 1\n" + "\n" * 8 + "key: 2"
    problem = Problem(
        "duplicate-key",
        "the key `key` is written twice",
        at(10, 1, 4),
        help="delete one",
        also=(("first written here", at(1, 1, 4)), ("elsewhere", at(3, 1, 2, file="b.yaml"))),
    )
    assert render([problem], {"plan.yaml": text}) == (
        "error[duplicate-key]: the key `key` is written twice\n"
        "  --> plan.yaml:10:1\n"
        "10 | key: 2\n"
        "   | ^^^\n"
        "  ::: plan.yaml:1:1\n"
        " 1 | key: 1\n"
        "   | ^^^ first written here\n"
        "  ::: b.yaml:3:1 elsewhere\n"
        "  help: delete one"
    )


def test_problems_are_sorted_by_file_line_and_column_with_a_blank_line_between():
    spans = [at(2, 1, 2, file="b"), at(1, 9, 10, file="b"), at(1, 10, 11, file="b"), at(7, 1, 2)]
    problems = [Problem(f"p{number}", "m", span) for number, span in enumerate(spans)]
    text = render([*problems[::-1], Problem("p9", "m")], {})
    assert [row[6:8] for row in text.split("\n\n")] == ["p9", "p1", "p2", "p0", "p3"]


@pytest.mark.parametrize(
    ("text", "span", "end"),
    [
        ("key: |-\n  text", at(1, 6, 3, end_line=2), "1 | key: |-\n  |      ^^"),
        ("key:", at(1, 5, 5), "1 | key:\n  |     ^"),
        ("\ufeffkey: 1", at(1, 1, 4), "1 | key: 1\n  | ^^^"),
        ("x" * 120, at(1, 1, 2), f"1 | {'x' * 120}\n  | ^"),
        ("\n" * 122 + "key: 1", at(123, 1, 4), "123 | key: 1\n    | ^^^"),
        *(
            (end.join(["a: 1", "b: \x0b\x85\u2028", "c: 3", ""]), at(3, 1, 2), "3 | c: 3\n  | ^")
            for end in ("\n", "\r\n", "\r")
        ),
    ],
    ids=["several-lines", "empty", "mark", "fits", "gutter", "lf", "crlf", "cr"],
)
def test_a_place_is_underlined_on_its_first_line(text, span, end):
    assert render([], {}) == ""
    assert render([Problem("x", "y", span)], {"plan.yaml": text}).endswith(end)


def test_a_tab_keeps_the_caret_aligned():
    source, carets = shown("\tkey:\tvalue", 7, 12)
    assert "\t" not in source
    assert source.index("value") == carets.index("^")
    assert carets.count("^") == len("value")


@pytest.mark.parametrize("wide", ["日本語", "🙂🙂", "ｆｕｌｌ", "e\u0301e\u0301"])
def test_wide_and_combining_characters_keep_the_caret_aligned(wide):
    line = f"{wide}: {wide} x"
    source, carets = shown(line, len(wide) + 3, len(line) - 1)
    before = source[: source.index(": ") + 2].replace("\u0301", "")
    assert display_columns(before) == carets.index("^")
    assert carets.count("^") == display_columns(wide.replace("\u0301", ""))


@pytest.mark.parametrize("hidden", ["\x1b[31m", "\x07", "\x9b", "\u202e", "\ud800", "\u2028", "\r"])
def test_control_characters_are_never_printed_raw(hidden):
    evil = f"a{hidden}b"
    span = Span(evil, 1, 1, 1, 2)
    problem = Problem("x", evil, span, path=evil, help=evil, also=((evil, span),))
    text = render([problem], {evil: f"{evil} c"}) + str(ProblemsFound([problem]))
    assert hidden[0] not in text
    assert text.count("\n") == render([problem], {evil: "a"}).count("\n") or hidden == "\r"


def test_an_escaped_control_character_keeps_the_caret_aligned():
    source, carets = shown("\x1b[0m: x", 7, 8)
    assert source == "1 | \\x1b[0m: x"
    assert carets.index("^") == source.index("x", 10)


@pytest.mark.parametrize("unit", ["ab ", "日 ", "\u202e ", "\u0301"])
@pytest.mark.parametrize("column", [1, 30, 1000, 2990, 3000])
def test_a_very_long_line_is_windowed_round_the_caret(unit, column):
    line = (unit * 3000)[: column - 1] + "X" + (unit * 3000)[:3000]
    source, carets = shown(line, column, column + 1)
    body = "".join(char for char in source[4:] if unicodedata.category(char) != "Mn")
    assert display_columns(body) <= 126
    caret = carets.index("^") - 4
    left = 0
    for char in body:
        if left == caret:
            assert char == "X"
            return
        left += display_columns(char)
    pytest.fail("the caret is outside the window")


@pytest.mark.parametrize(
    ("column", "shown_as"),
    [
        (1, "a" * 120 + "..."),
        (500, "..." + "a" * 120 + "..."),
        (1000, "..." + "a" * 120),
    ],
)
def test_dots_stand_where_a_long_line_is_cut_and_the_window_is_used_up(column, shown_as):
    source, carets = shown("a" * 1000, column, column + 1)
    assert source == f"1 | {shown_as}"
    assert len(carets) <= len(source)


@given(
    st.text(),
    st.text(max_size=200),
    st.integers(-3, 300),
    st.integers(-3, 300),
    st.integers(-3, 300),
)
def test_any_text_and_any_place_can_be_rendered(message, source, line, column, end):
    span = Span("f", line, column, line, end)
    problem = Problem("x", message, span, message, message, also=((message, span),))
    text = render([problem, Problem("y", message)], {"f": source})
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\ud800-\udfff\u202a-\u202e]", text)


def test_the_exception_says_in_one_line_where_the_first_problem_is():
    first = Problem("x", "unknown field `a`", at(8, 5, 6))
    assert str(ProblemsFound([first])) == "plan.yaml:8:5: unknown field `a`"
    assert str(ProblemsFound([Problem("y", "bad"), first, first])) == "bad (and 2 more)"
    assert str(ProblemsFound([])) == "no problems"


def test_the_exception_keeps_its_problems_through_a_copy_and_a_pickle():
    found = ProblemsFound(iter([Problem("x", "y", at(1, 1, 2))]))
    assert found.problems == (Problem("x", "y", at(1, 1, 2)),)
    assert copy.copy(found).problems == found.problems
    assert pickle.loads(pickle.dumps(found)).problems == found.problems


def test_problems_cannot_be_changed_and_can_be_compared():
    problem = Problem("x", "y", at(1, 1, 2))
    assert {problem, Problem("x", "y", at(1, 1, 2))} == {problem}
    with pytest.raises(AttributeError, match="immutable"):
        problem.code = "z"


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("temprature", "temperature"),
        ("modle", "model"),
        ("MODEL", "model"),
        ("max-revisions", "max_revisions"),
        ("prompts", "prompt"),
        ("xyz", None),
        ("", None),
        ("model" * 100, None),
    ],
)
def test_the_closest_choice_is_the_one_that_was_meant(word, meant):
    assert closest(word, ["model", "prompt", "temperature", "max_revisions"]) == meant


def test_a_slip_is_one_letter_or_the_way_of_writing_several_words():
    for word in ("stauts", "statu", "statuses"[:7], "sttaus", "STA-tus", "xstatus"):
        assert is_slip(word, "status"), word
    for word in ("status", "state", "statuses", "stat", ""):
        assert not is_slip(word, "status"), word
    assert not is_slip("id", "ids")


def test_a_choice_among_hundreds_of_similar_ones_is_compared_with_few_of_them():
    choices = [f"input.x{number}" for number in range(300)]
    with cProfile.Profile() as profile:
        assert closest("input.y217", choices) == "input.x217"
    assert sum(entry.callcount for entry in profile.getstats()) < 15_000


def test_the_closest_choice_is_given_as_it_is_written():
    assert closest("severitycode", ["SeverityCode"]) == "SeverityCode"


def test_a_near_choice_is_suggested_and_else_the_choices_are_listed():
    assert did_you_mean("modle", ["model", "prompt"]) == "did you mean `model`?"
    assert did_you_mean("zzz", iter(["model", "prompt"])) == "allowed: `model`, `prompt`"
    assert did_you_mean("zzz", []) == ""
    assert did_you_mean("ok", ["failed", "on"]) == "did you mean `on`?"
    assert did_you_mean("prompter", ["model", "post", "mr"]) == "allowed: `post`, `model`, `mr`"
    assert did_you_mean("zzz", [f"state_{number}" for number in range(40)]).count("`state_") == 40


def test_of_many_problems_of_one_kind_a_few_are_shown_and_the_others_counted() -> None:
    def repeated(number: int, code: str = "tag") -> list[Problem]:
        return [Problem(code, "no", Span("a.yaml", n, 1, n, 2)) for n in range(1, number + 1)]

    assert render(repeated(10), {}).count("error[tag]") == 10
    told = render([*repeated(90_000), *repeated(2, "tab")], {}).split("\n\n")
    assert told[-1] == "… and 89,997 more error[tag] in a.yaml"
    assert [block.splitlines()[0] for block in told[:-1]].count("error[tag]: no") == 3
    assert len(told) == 3 + 2 + 1


def test_a_text_without_end_is_cut_wherever_it_stands() -> None:
    endless = "x" * 1_000_000
    span = Span("a.yaml", 1, 1, 1, 2)
    problem = Problem("tag", endless, span, endless, endless, also=((("here", span),) * 90_000))
    assert len(render([problem], {"a.yaml": endless})) < 8_000
