"""The fields of a form: the control of each on a page, and the value that is read from it.

An unchanged field keeps its value, whatever browsers do to line ends and invisible characters.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from loopkit.language.datatypes import DataType, first_misfit, misfit
from loopkit.language.json_schema import NotJudged
from loopkit.text import one_line, printable
from loopkit.text.editing import plain_ends
from loopkit.text.json_text import NoJson, parse_json
from loopkit.views.page.example import example_text

Control = Literal["choice", "choices", "bool", "number", "line", "text", "lines", "json"]
ABOUT_WIDTH = 400
ONE_LINE = 200
"""A text whose schema limits it to so many characters gets a field of one line."""
MOST_RADIOS = 6
"""Up to this number, values are radio buttons; above it, a list."""
YES, NO = "true", "false"
NEEDED = "is needed"
_INT = re.compile(r"[+-]?[0-9]+")
_NUM = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_OMITTED = object()
"""The value of a field that is omitted."""


class Typed:
    """The content of a form that was sent: all values of each name, in order."""

    def __init__(self, pairs: Mapping[str, Sequence[str]]) -> None:
        self.pairs = pairs

    def all(self, name: str) -> Sequence[str]:
        """All values of a name."""
        return self.pairs.get(name, ())

    def one(self, name: str) -> str:
        """The first value of a name, with plain line ends; empty without one."""
        return plain_ends(next(iter(self.all(name)), ""))


class NotFilledIn(Exception):
    """Why the text in a field is not a value of it."""


@dataclass(frozen=True, slots=True)
class FormField:
    """A field of a form, and its control on a page."""

    name: str
    control: Control
    about: str
    """Its description and what it takes, unless its control shows that; may be empty."""
    values: tuple[str, ...]
    """The values to choose from."""
    value: str
    """The text in it before it is filled in."""
    picked: tuple[str, ...]
    """For a list of choices: those that are chosen before it is filled in."""
    is_required: bool
    """Whether it has to be filled in."""
    minimum: float | None
    maximum: float | None
    is_whole: bool
    datatype: DataType

    @property
    def as_list(self) -> bool:
        """Whether there are too many values for radio buttons."""
        return len(self.values) > MOST_RADIOS

    @property
    def options(self) -> Sequence[tuple[str, str]]:
        """The values to choose from, each with its label."""
        if self.control == "bool":
            return [(YES, "yes"), (NO, "no")]
        return [(value, value) for value in self.values]

    def shown(self, typed: Typed | None, name: str) -> str:
        """The text in it: the one that was typed, else its initial text."""
        return self.value if typed is None else typed.one(name)

    def chosen(self, typed: Typed | None, name: str) -> Sequence[str]:
        """The values that are chosen in a list of choices."""
        return self.picked if typed is None else typed.all(name)


def form_fields(form: DataType) -> list[FormField]:
    """The fields of a record, in its order."""
    return [_field(name, datatype) for name, datatype in (form.fields or {}).items()]


def _field(name: str, datatype: DataType) -> FormField:
    control = _control(datatype)
    words = datatype.items if control == "choices" else datatype
    default = datatype.default if datatype.has_default else None
    return FormField(
        name=name,
        control=control,
        about=_about(datatype, control),
        values=words.values if words is not None else (),
        value="" if default is None else _field_text(default, control),
        picked=tuple(default) if control == "choices" and default else (),
        is_required=_needs_something(datatype, control),
        minimum=datatype.minimum,
        maximum=datatype.maximum,
        is_whole=datatype.scalar == "int",
        datatype=datatype,
    )


def _about(datatype: DataType, control: Control) -> str:
    items = datatype.items.scalar if datatype.items is not None else None
    numbers = {"int": ["whole numbers"], "num": ["numbers"]}
    kinds = {
        "number": [
            "a whole number" if datatype.scalar == "int" else "a number",
            *datatype.bounds_in_words,
        ],
        "lines": [*numbers.get(items or "", ()), "one on each line"],
        "choices": ["any of these"],
        "json": [_as_json(datatype)],
    }
    words = [*kinds.get(control, ()), *(["optional"] if datatype.optional else [])]
    text = ", ".join(words)
    parts = [str(datatype.schema.get("description", "")), text[:1].upper() + text[1:]]
    return one_line(" ".join(part for part in parts if part), ABOUT_WIDTH)


def _as_json(datatype: DataType) -> str:
    example = example_text(datatype)
    return f"as JSON, in the form `{example}`" if example else "as JSON"


def _needs_something(datatype: DataType, control: Control) -> bool:
    if control in ("lines", "choices"):
        return False
    # A text may be emptied on purpose if it has a default; other kinds have no empty value.
    return datatype.required if control in ("line", "text") else not datatype.optional


def _control(datatype: DataType) -> Control:
    if datatype.values:
        return "choice" if "" not in datatype.values else "json"
    match datatype.scalar:
        case "bool":
            return "bool"
        case "int" | "num":
            return "number"
        case "str":
            return _text_control(datatype)
        case _:
            return _list_control(datatype) if datatype.items is not None else "json"


def _text_control(datatype: DataType) -> Control:
    default, schema = datatype.default or "", datatype.schema
    longest = schema.get("maxLength")
    # Formats are not checked, so a special control would promise too much.
    is_short = schema.get("format") == "date" or (isinstance(longest, int) and longest <= ONE_LINE)
    return "line" if is_short and default == " ".join(default.splitlines()) else "text"


def _list_control(datatype: DataType) -> Control:
    """The control of a list: choices, single values one on each line, or else JSON."""
    items, default = datatype.items, datatype.default or []
    assert items is not None
    if items.optional or items.scalar not in ("str", "int", "num") or "" in items.values:
        return "json"
    if items.values:
        in_order = [value for value in items.values if value in default]
        return "choices" if default == in_order else "json"
    return "lines" if all(_is_line(one) for one in default) else "json"


def _is_line(value: object) -> bool:
    """Whether a value fits on one line."""
    return not isinstance(value, str) or (value.strip() == value and len(value.splitlines()) == 1)


def _field_text(value: object, control: Control) -> str:
    if control == "lines":
        assert isinstance(value, list)
        return "\n".join(one if isinstance(one, str) else json.dumps(one) for one in value)
    if isinstance(value, str) and control != "json":
        return value
    return json.dumps(value, ensure_ascii=False, indent=2)


def read_fields(
    fields: Sequence[FormField], typed: Typed, prefix: str
) -> tuple[dict[str, Any], dict[str, str]]:
    """The values of fields by name, and the faults by the names of the fields on the page."""
    values: dict[str, Any] = {}
    faults: dict[str, str] = {}
    for field in fields:
        name = f"{prefix}{field.name}"
        try:
            value = read_field(field, typed.all(name))
        except NotFilledIn as error:
            faults[name] = str(error)
            continue
        if value is not _OMITTED:
            values[field.name] = value
    return values, faults


def read_field(field: FormField, sent: Sequence[str]) -> object:
    """The value that was typed into a field, or `_OMITTED`; raises NotFilledIn."""
    datatype = field.datatype
    text = plain_ends(sent[0]) if sent else ""
    if field.control == "choices":
        value: object = list(sent)
        if not sent and datatype.optional:
            return _OMITTED
    elif datatype.has_default and text == printable(field.value) and datatype.default is not None:
        return datatype.default
    elif not text.strip() and not (text and field.control in ("text", "line")):
        return _nothing(field)
    else:
        value = _READERS[field.control](text, datatype)
    if fault := _fault(value, datatype):
        raise NotFilledIn(fault)
    return value


def _nothing(field: FormField) -> object:
    """The value of a field that was left empty; raises NotFilledIn if it is required."""
    datatype = field.datatype
    if field.is_required:
        raise NotFilledIn(NEEDED)
    if field.control == "lines" and not (datatype.optional and datatype.default is None):
        return []
    if datatype.optional:
        return _OMITTED if datatype.default is None or datatype.is_left_out else None
    return ""


def _fault(value: object, datatype: DataType) -> str:
    """What is wrong with a value, in words that say what the field takes; empty if nothing is."""
    try:
        return first_misfit(value, datatype)
    except NotJudged as error:
        return f"could not be checked: {error}"


def _number(text: str, datatype: DataType) -> object:
    number_text = text.strip()
    try:
        if _INT.fullmatch(number_text):
            return int(number_text)
        if _NUM.fullmatch(number_text):
            number = float(number_text)
            return int(number) if datatype.scalar == "int" and number.is_integer() else number
    except ValueError as error:
        raise NotFilledIn(f"has more digits than can be read: {len(number_text):,}") from error
    raise NotFilledIn(misfit(number_text, datatype) or "takes a number")


def _json(text: str, _: DataType) -> object:
    value = parse_json(text)
    if isinstance(value, NoJson):
        raise NotFilledIn(f"is not JSON: {value.reason}")
    return value


def _lines(text: str, datatype: DataType) -> object:
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    items = datatype.items
    assert items is not None
    if items.scalar == "str":
        return lines
    return [_number(line, items) for line in lines]


def _bool(text: str, _: DataType) -> object:
    return {YES: True, NO: False}.get(text, text)


def _as_it_is(text: str, _: DataType) -> object:
    return text


_READERS: Mapping[Control, Callable[[str, DataType], object]] = {
    "choice": _as_it_is,
    "bool": _bool,
    "number": _number,
    "line": _as_it_is,
    "text": _as_it_is,
    "lines": _lines,
    "json": _json,
}
