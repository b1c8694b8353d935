"""The editor of YAML: a new value is put in, and all around it stays as it is."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopkit.document.document import DocPath
from loopkit.document.reading import read
from loopkit.testing.yaml_edits import NotWritten, YamlEditor, apply_edits


def edited(text: str, path: DocPath, value: Any) -> str:
    """The text with a new value at a path."""
    return apply_edits(text, list(YamlEditor(read(text, "plan.yaml")).edits(path, value)))


def test_a_value_is_replaced_and_comments_and_spaces_around_it_stay() -> None:
    text = "plan:   # a plan\n  calls:  {writer: 9,   critic: 1}   # so many\n"
    assert edited(text, ("plan", "calls", "writer"), 2) == text.replace("9", "2")


def test_a_list_in_brackets_keeps_how_its_items_are_written() -> None:
    text = "path: [draft,  'check', done]\n"
    assert edited(text, ("path",), ["draft", "check", "draft", "done"]) == (
        "path: [draft, 'check', draft, done]\n"
    )


def test_a_list_of_lines_keeps_the_comments_of_items_that_stay() -> None:
    text = "path:\n  - draft\n  # again\n  - check   # it passes\n  - done\nlast: 1\n"
    assert edited(text, ("path",), ["draft", "check", "ask", "dropped"]) == (
        "path:\n  - draft\n  # again\n  - check   # it passes\n  - ask\n  - dropped\nlast: 1\n"
    )


def test_a_gap_keeps_its_spelling() -> None:
    text = "path: [draft, '*', done]\n"
    assert edited(text, ("path",), ["draft", "…", "dropped"]) == "path: [draft, '*', dropped]\n"


def test_a_long_list_is_broken_inside_its_brackets() -> None:
    made = edited("plan: {path: [done]}\n", ("plan", "path"), ["a_state_of_a_name"] * 12)
    assert max(map(len, made.splitlines())) <= 100
    assert read(made, "plan.yaml").plain() == {"plan": {"path": ["a_state_of_a_name"] * 12}}


@pytest.mark.parametrize(
    ("text", "path", "told"),
    [
        ("a: &x {n: 1}\nb: *x\n", ("b", "n"), "it comes from an alias or a merge key"),
        ("a: 1\n", ("b",), "it is not in the file"),
        ("a: [1,\n  # why\n  2]\n", ("a",), "there are comments inside of it"),
    ],
)
def test_what_can_t_be_changed_in_place_is_refused(text: str, path: DocPath, told: str) -> None:
    with pytest.raises(NotWritten, match=told):
        edited(text, path, ["1"])


@pytest.mark.parametrize(
    ("empty", "filled"),
    [
        ("case:\n  expect:\n", "case:\n  expect:\n    outcome: done\n    path: [a, done]\n"),
        ("case:\n  expect: {}\n", "case:\n  expect:\n    outcome: done\n    path: [a, done]\n"),
        ("case: {expect: }\n", "case: {expect: {outcome: done, path: [a, done]} }\n"),
    ],
)
def test_a_key_without_a_value_gets_a_mapping(empty: str, filled: str) -> None:
    editor = YamlEditor(read(empty, "plan.yaml"))
    edit = editor.fill_mapping(("case", "expect"), {"outcome": "done", "path": ["a", "done"]})
    assert apply_edits(empty, [edit]) == filled


def test_a_key_that_has_a_value_is_not_filled() -> None:
    editor = YamlEditor(read("case: {expect: {outcome: done}}\n", "plan.yaml"))
    with pytest.raises(NotWritten, match="it is not an empty value"):
        editor.fill_mapping(("case", "expect"), {"outcome": "dropped"})


def test_line_ends_stay() -> None:
    text = "text: |\r\n  old\r\nlast: 1\r\n"
    assert edited(text, ("text",), "a\nb") == "text: |\r\n  a\r\n  b\r\nlast: 1\r\n"


@pytest.mark.parametrize(
    "style", ["old", "'old'", '"old"', "|\n  old\n", "|+\n  old\n\n", "|-\n  old"]
)
@given(value=st.text(alphabet="ab \n\x01\\\"':#é", max_size=8))
def test_a_text_reads_back_as_it_was_put_there_whatever_quotes_it_had(
    style: str, value: str
) -> None:
    text = f"first: 1\nkey: {style}\nlast: 2\n"
    [cut] = YamlEditor(read(text, "cases.yaml")).edits(("key",), value)
    changed = read(text[: cut.start] + cut.text + text[cut.end :], "cases.yaml").plain()
    assert changed["last"] == 2
    # Line breaks at the end of an expected text do not count, so a block keeps its own.
    assert str(changed["key"]).rstrip("\n") == value.rstrip("\n")
