"""Fields of forms on pages: each kind as it is shown, and as it is read when it was filled in."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from loopkit.language.datatypes.notation import parse_record
from loopkit.text import printable
from loopkit.text.editing import apply_edit, editable, plain_ends
from loopkit.views.page.fields import FormField, Typed, form_fields, read_fields

JSON_TEXT = {"type": "string"}


def field_of(notation: Any) -> FormField:
    """The field of a type."""
    [field] = form_fields(parse_record({"it": notation}))
    return field


def of_schema(schema: dict[str, Any], *, is_required: bool = True) -> FormField:
    """The field of a JSON Schema."""
    required = ["it"] if is_required else []
    whole = {"type": "object", "properties": {"it": schema}, "required": required}
    [field] = form_fields(parse_record(whole))
    return field


def read(field: FormField, *sent: str) -> Any:
    """What is read of a field that was sent like this: a value, nothing, or what is wrong."""
    given, faults = read_fields([field], Typed({"form.it": sent} if sent else {}), "form.")
    assert not (given and faults)
    return faults["form.it"] if faults else given.get("it", ...)


def as_shown(field: FormField) -> Sequence[str]:
    """What a browser sends of a field that nobody has touched."""
    if field.control == "choices":
        return [one for one in field.values if one in field.picked]
    # Text areas end their lines like this, and a page shows no control characters.
    return [printable(field.value).replace("\n", "\r\n")]


@pytest.mark.parametrize(
    ("notation", "control", "sent", "value"),
    [
        ("str", "text", "Tea", "Tea"),
        ("str", "text", "  a\r\n\r\nb \r\n", "  a\n\nb \n"),
        ("str", "text", "true", "true"),
        ("int", "number", "7", 7),
        ("int", "number", " -7 ", -7),
        ("int", "number", "1e3", 1000),
        ("int", "number", "12345678901234567890", 12345678901234567890),
        ("num", "number", "0.5", 0.5),
        ("num", "number", "3", 3),
        ("bool", "bool", "true", True),
        ("bool", "bool", "false", False),
        ("card|letter", "choice", "letter", "letter"),
        (["str"], "lines", "a b\r\n\r\n c \r\n", ["a b", "c"]),
        (["str"], "lines", "", []),
        (["int"], "lines", "1\r\n2", [1, 2]),
        (["num"], "lines", "1.5\r\n2", [1.5, 2]),
        ({"at": "str", "zip": "int"}, "json", '{"at": "A", "zip": 1}', {"at": "A", "zip": 1}),
        ([{"a": "str"}], "json", '[{"a": "x"}]', [{"a": "x"}]),
        ([["int"]], "json", "[[1], []]", [[1], []]),
        (["bool"], "json", "[true]", [True]),
        ("any", "json", '"text"', "text"),
        ("any", "json", "null", None),
    ],
)  # fmt: skip
def test_what_is_typed_is_the_value(notation: Any, control: str, sent: str, value: Any) -> None:
    field = field_of(notation)
    assert field.control == control
    assert (found := read(field, sent)) == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("notation", "sent", "told"),
    [
        ("int", "7.5", "takes a whole number; `7.5` is not"),
        ("int", "seven", "takes a whole number; `seven` is not"),
        ("int", "1_000", "takes a whole number"),
        ("int", "9" * 5000, "takes a whole number"),
        ({"type": "int", "minimum": 1, "maximum": 9}, "10", "at least 1, at most 9; `10` is not"),
        ({"type": "num", "minimum": 0}, "-0.1", "takes a number, at least 0; `-0.1` is not"),
        ("num", "1e999", "takes a number; `1e999` is not"),
        ("num", "nan", "takes a number; `nan` is not"),
        ("bool", "maybe", "takes true or false; `maybe` is not"),
        ("card|letter", "parcel", "takes `card` or `letter`; `parcel` is not"),
        (["int"], "1\r\ntwo", "takes a whole number; `two` is not"),
        ({"a": "int"}, '{"a": 1', "is not JSON"),
        ({"a": "int"}, '{"a": 1, "a": 2}', "is not JSON"),
        ({"a": "int"}, '{"a": "x"}', "does not fit: a"),
        ("any", '"\\ud800"', "half a surrogate pair"),
        ("any", "NaN", "NaN is not a JSON number"),
    ],
)  # fmt: skip
def test_what_is_no_value_is_told_in_words_that_say_what_is_one(
    notation: Any, sent: str, told: str
) -> None:
    assert told in read(field_of(notation), sent)


@pytest.mark.parametrize(
    "notation", ["str", "int", "num", "bool", "card|letter", {"a": "int"}, "any"]
)
def test_what_is_required_can_not_be_left_empty(notation: Any) -> None:
    field = field_of(notation)
    assert field.is_required
    assert read(field, "") == read(field) == "is needed"


@pytest.mark.parametrize(
    "notation",
    [f"optional {one}" for one in ("str", "int", "num", "bool", "card|letter")]
    + [{"type": "optional str"}, {"type": ["str"], "default": []}],
)
def test_what_is_optional_may_be_left_empty(notation: Any) -> None:
    field = field_of(notation)
    assert not field.is_required
    assert read(field, "") in (..., [])


@pytest.mark.parametrize(
    "notation",
    [
        {"type": "str", "default": "plain"},
        {"type": "str", "default": ""},
        {"type": "str", "default": "\n  two\r\nlines\u202e \n\n"},
        {"type": "int", "default": 0},
        {"type": "num", "default": 0.1},
        {"type": "bool", "default": False},
        {"type": "card|letter", "default": "letter"},
        {"type": ["str"], "default": ["a", "b c"]},
        {"type": ["str"], "default": []},
        {"type": ["str"], "default": [" a", "b\nc", ""]},
        {"type": ["int"], "default": [3, 1]},
        {"type": ["wet|cold|dry"], "default": ["wet", "dry"]},
        {"type": ["wet|cold|dry"], "default": ["dry", "wet", "dry"]},
        {"type": "any", "default": {"b": [1, 2.5, None], "a": "ä"}},
        {"type": "any", "default": "a text"},
        {"type": {"a": "int"}, "default": {"a": 1}},
    ],
)
def test_what_nobody_has_touched_is_the_default(notation: Any) -> None:
    field = field_of(notation)
    value = read(field, *as_shown(field))
    assert value == notation["default"]
    assert type(value) is type(notation["default"])


def test_a_default_may_be_taken_away_where_nothing_is_something() -> None:
    assert read(field_of({"type": "str", "default": "plain"}), "") == ""
    assert read(field_of({"type": ["str"], "default": ["a"]}), "") == []
    assert read(field_of({"type": ["wet|dry"], "default": ["wet"]})) == []
    assert read(field_of({"type": "int", "default": 3}), "") == "is needed"
    assert read(field_of({"type": "optional int", "default": 3}), "") == "is needed"
    assert read(field_of({"type": ["integer", "null"], "default": 3}), "") is None


def test_several_words_are_picked_in_any_number() -> None:
    field = field_of(["wet|cold|dry"])
    assert (field.control, field.values) == ("choices", ("wet", "cold", "dry"))
    assert read(field) == []
    assert read(field, "dry", "wet") == ["dry", "wet"]
    assert "does not fit" in read(field, "hot")


def test_many_words_are_a_list_to_pick_from() -> None:
    assert not field_of("a|b|c").as_list
    assert field_of("a|b|c|d|e|f|g").as_list


@pytest.mark.parametrize(
    ("schema", "control"),
    [
        ({**JSON_TEXT, "format": "date"}, "line"),
        ({**JSON_TEXT, "maxLength": 80}, "line"),
        ({**JSON_TEXT, "maxLength": 8000}, "text"),
        ({**JSON_TEXT, "format": "date-time"}, "text"),
        ({"enum": ["a", "b"]}, "choice"),
        ({"enum": ["a", ""]}, "json"),
        ({"enum": [1, "a"]}, "json"),
        ({"type": ["integer", "null"]}, "number"),
        ({"type": "array", "items": JSON_TEXT}, "lines"),
        ({"type": "array"}, "json"),
        ({"type": "object"}, "json"),
        ({}, "json"),
    ],
)
def test_json_schema_says_how_a_field_is_filled_in(schema: Any, control: str) -> None:
    assert of_schema(schema).control == control


def test_what_json_schema_demands_besides_is_checked() -> None:
    assert "does not fit" in read(of_schema({**JSON_TEXT, "pattern": "^x"}), "y")
    assert "does not fit" in read(of_schema({"type": "array", "minItems": 1}), "[]")
    assert "at most 4" in read(of_schema({"type": "integer", "exclusiveMaximum": 5}), "5")
    assert read(of_schema({**JSON_TEXT, "format": "date"}), "in May") == "in May"


def test_what_json_schema_does_not_require_stays_out() -> None:
    assert read(of_schema(JSON_TEXT, is_required=False), "") is ...
    assert read(of_schema({"type": "integer"}, is_required=False), "") is ...


def test_a_default_that_its_control_could_not_hold_gets_another_one() -> None:
    for other in ({"maxLength": 9, "default": "a\nb"}, {"format": "date", "default": "a\nb"}):
        assert of_schema({**JSON_TEXT, **other}, is_required=False).control == "text"
    lines = of_schema({**JSON_TEXT, "maxLength": 9, "default": "a\nb"}, is_required=False)
    assert read(lines, "a\r\nb") == "a\nb"


@pytest.mark.parametrize(
    ("notation", "about"),
    [
        ("str", ""),
        ("optional str", "Optional"),
        ({"type": "int", "minimum": 1}, "A whole number, at least 1"),
        ({"type": "bool", "description": "Is it ready?"}, "Is it ready?"),
        ({"type": "num", "maximum": 2, "description": "g."}, "g. A number, at most 2"),
        (["num"], "Numbers, one on each line"),
        ("any", "As JSON"),
        ({"a": "str"}, 'As JSON, in the form `{"a": "text"}`'),
        ([["a|b"]], 'As JSON, in the form `[["a"]]`'),
        ({"...": "num"}, 'As JSON, in the form `{"name": 1.5}`'),
        (
            [{"id": {"type": "int", "minimum": 3}, "of": {"x": "any", "y": "optional bool"}}],
            'As JSON, in the form `[{"id": 3, "of": {"x": "anything", "y": true}}]`',
        ),
        (
            {f"a{n}": {"b": "str"} for n in range(15)},
            "As JSON, in the form `"
            + json.dumps({f"a{n}": {"b": "text"} for n in range(15)})[:249]
            + "…`",
        ),
    ],
)  # fmt: skip
def test_a_field_says_what_is_not_to_be_seen(notation: Any, about: str) -> None:
    assert field_of(notation).about == about


# Edited texts

LINES = some.text(some.sampled_from("ab \t\r\n\x1b[0m\u202e\x0bä"), max_size=40)


@given(LINES)
def test_a_text_that_nobody_has_edited_is_exactly_the_same(text: str) -> None:
    assert apply_edit(text, editable(text).replace("\n", "\r\n")) == text


@given(LINES, LINES)
def test_what_is_typed_is_what_is_shown_of_the_edited_text(text: str, typed: str) -> None:
    assert editable(apply_edit(text, typed)) == editable(plain_ends(typed))


@pytest.mark.parametrize(
    ("text", "typed", "made"),
    [
        ("a\r\nb\r\n", "a\r\nB\r\n", "a\r\nB\r\n"),
        ("a\nb\n", "a\r\nB\r\n", "a\nB\n"),
        ("a\r\nb\nc\r\n", "a\r\nnew\r\nb\r\nc\r\n", "a\r\nnew\r\nb\nc\r\n"),
        ("\na  \n", "\r\na  \r\nb", "\na  \nb"),
        ("a\u202e\r\nb\r\n", "a\r\nB\r\n", "a\u202e\r\nB\r\n"),
        ("a\n", "a", "a"),
        ("a", "a\r\n", "a\n"),
        ("", "a\r\nb", "a\nb"),
        ("a\nb", "", ""),
        ("one", "one \r\n\r\n", "one \n\n"),
        ("\n0\r", "0\r\r", "0\r\r"),
    ],
)
def test_only_lines_that_were_edited_change(text: str, typed: str, made: str) -> None:
    assert apply_edit(text, typed) == made


def test_a_long_text_is_edited_in_a_time_that_grows_with_it() -> None:
    """Comparing every line with every other one would take hours."""
    text = "\r\n".join(str(n % 1000) for n in range(200_000))
    typed = text.replace("\r\n", "\n").replace("\n500\n", "\nhalf\n")
    assert apply_edit(text, typed) == text.replace("\r\n500\r\n", "\r\nhalf\r\n")
