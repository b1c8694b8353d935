"""The overrides of the parser change none of its events, but for those of what is refused."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from loopkit.document.parser import ParserGaveUp, events

ROOT = Path(__file__).parent.parent
REFUSED = ROOT / "tests/cases/err/too_deep.yaml"
FILES = sorted({*ROOT.glob("machines/*.yaml"), *ROOT.glob("tests/cases/*/*.yaml")} - {REFUSED})
PIECES = (
    "a", "b c", "d  e", "-", "- ", "? ", ": ", ":", ", ", ",", "[", "]", "{", "}", "\n", "\n  ",
    "\n    ", "\r\n", "\t", " ", "#", " # c", "'x'", '"y"', "|", "|\n  t\n", ">-\n  u\n", "&a ",
    "*a", "!t ", "---\n", "...\n", "%", "é", "\x85", "\u2028", "1.5", "a/b", "key: ", "k: v\n",
    "- k: v\n", "{a: b, c}", "[a, b: c]", "\ufeff", "\r", "''", "'a''b'", "'x\n y'", "'x  y': ",
    '"p q"', '"\\u00e9"', '"z\\\n"', "'\ufeff'", "k" * 1030, "...", "---",
)  # fmt: skip


def described(event: Any) -> tuple[object, ...]:
    marks = ((mark.index, mark.line, mark.column) for mark in (event.start_mark, event.end_mark))
    told = ("value", "style", "anchor", "flow_style", "implicit", "explicit")
    return type(event), *marks, *(getattr(event, name, None) for name in told)


def ours(text: str) -> list[object]:
    found: list[object] = []
    try:
        found.extend(map(described, events(text)))
    except ParserGaveUp as stop:
        found.append(str(stop.__cause__))
    return found


def theirs(text: str) -> list[object]:
    found: list[object] = []
    try:
        found.extend(map(described, YAML(typ="safe", pure=True, plug_ins=[]).parse(text)))
    except (YAMLError, ValueError) as error:
        found.append(str(error))
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_the_events_of_a_file_are_those_of_ruamel(path: Path) -> None:
    text = path.read_bytes().decode(errors="replace")
    assert ours(text) == theirs(text)


@given(st.lists(st.sampled_from(PIECES), max_size=14).map("".join))
@example("- a\n- &" + "k" * 1030)
def test_the_events_of_any_text_are_those_of_ruamel(text: str) -> None:
    found, expected = ours(text), theirs(text)
    if "the name is too long" in str(found[-1]):
        # Refused by us alone, so that no name is looked at again and again.
        found, expected = found[:-1], expected[: len(found) - 1]
    assert found == expected


@pytest.mark.parametrize(
    "text",
    [
        "a: :b", ":b: c", "[:b]", "[a:b]", "{a: :b}", "{a:b}", "{'a':b}", "['a':b]", "a: ::",
        "[a, :]", "'a'\n: b", '"a"\n  : b', "{'a'\n: b}", "['a'\n: b]", "? 'a'\n: b", "- 'a'\n: b",
    ],
)  # fmt: skip
def test_a_colon_is_what_it_is_to_ruamel(text: str) -> None:
    assert ours(text) == theirs(text)


@pytest.mark.parametrize(("text", "values"), [
    ("{ ?topic: str }", ["?topic", "str"]), ("{a: ?b}", ["a", "?b"]), ("[?a, ??b]", ["?a", "??b"]),
    ("{? topic: str}", ["topic", "str"]), ("{a: b, ?}", ["a", "b", "", ""]),
])  # fmt: skip
def test_a_question_mark_belongs_to_a_text_unless_a_blank_follows(
    text: str, values: list[str]
) -> None:
    assert [event.value for event in events(text) if hasattr(event, "value")] == values


@pytest.mark.parametrize("length", [1023, 1024, 1025])
@pytest.mark.parametrize("form", ["NAME: v\n", "'NAME': v\n", "{NAME: v}", "? NAME\n: v\n"])
def test_a_key_may_be_as_long_as_with_ruamel(form: str, length: int) -> None:
    text = form.replace("NAME", "k" * length)
    assert ours(text) == theirs(text)
