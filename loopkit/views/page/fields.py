"""Forms: the open question of a run, or the input of a machine, as fields, and what is typed there.

An unchanged field keeps its value, whatever browsers do to line ends and invisible characters.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from loopkit.engine.events import Waiting
from loopkit.engine.findings import Finding, Report
from loopkit.engine.macrostep import Engine
from loopkit.engine.payloads import Artifact, Delivery, HumanAnswer, Wanted
from loopkit.engine.state import RunState
from loopkit.language.datatypes.datatype import DataType, first_misfit, misfit
from loopkit.language.datatypes.notation import parse_record
from loopkit.language.json_schema.equality import NotJudged
from loopkit.text import one_line, printable
from loopkit.text.editing import apply_edit, editable, plain_ends
from loopkit.text.json_text import NoJson, parse_json, text_or_json
from loopkit.views.hints import waiting_hints
from loopkit.views.page.rendering import Difference, difference
from loopkit.views.review import (
    arrival_lines,
    artifact_lines,
    history_of,
    reviewers_of,
    version_suffix,
    weight,
)
from loopkit.views.steps import KeptVersion

Control = Literal["choice", "choices", "bool", "number", "line", "text", "lines", "json"]
ABOUT_WIDTH = 400
ONE_LINE = 200
"""A text whose schema limits it to so many characters gets a field of one line."""
MOST_RADIOS = 6
YES, NO = "true", "false"
NEEDED = "is needed"
_OMITTED = object()


class Typed:
    """The content of a form that was sent: all values of each name, in order."""

    def __init__(self, pairs: Mapping[str, Sequence[str]]) -> None:
        self.pairs = pairs

    def all(self, name: str) -> Sequence[str]:
        return self.pairs.get(name, ())

    def one(self, name: str) -> str:
        """The first value of a name, with plain line ends; empty without one."""
        return plain_ends(next(iter(self.all(name)), ""))


class NotFilledIn(Exception):
    """Why a text is not a value of its field."""


@dataclass(frozen=True, slots=True)
class FormField:
    name: str
    control: Control
    about: str
    """Its description and what it takes, unless its control shows that; may be empty."""
    values: tuple[str, ...]
    value: str
    """The text in it before it is filled in."""
    picked: tuple[str, ...]
    """The choices before it is filled in."""
    is_required: bool
    datatype: DataType

    @property
    def as_list(self) -> bool:
        """Whether there are too many values for radio buttons."""
        return len(self.values) > MOST_RADIOS

    @property
    def options(self) -> Sequence[tuple[str, str]]:
        if self.control == "bool":
            return [(YES, "yes"), (NO, "no")]
        return [(value, value) for value in self.values]

    def shown(self, typed: Typed | None, name: str) -> str:
        """The text in it: the one that was typed, else its initial text."""
        return self.value if typed is None else typed.one(name)

    def chosen(self, typed: Typed | None, name: str) -> Sequence[str]:
        return self.picked if typed is None else typed.all(name)


def form_fields(form: DataType) -> list[FormField]:
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
        datatype=datatype,
    )


def _about(datatype: DataType, control: Control) -> str:
    words: list[str] = []
    match control:
        case "number":
            number = "a whole number" if datatype.scalar == "int" else "a number"
            words = [number, *datatype.bounds_in_words]
        case "lines":
            items = datatype.items.scalar if datatype.items is not None else None
            words = {"int": ["whole numbers"], "num": ["numbers"]}.get(items or "", [])
            words = [*words, "one on each line"]
        case "choices":
            words = ["any of these"]
        case "json":
            example = example_text(datatype)
            words = ["as JSON" + (f", in the form `{example}`" if example else "")]
    text = ", ".join([*words, *(["optional"] if datatype.optional else [])])
    parts = [str(datatype.schema.get("description", "")), text[:1].upper() + text[1:]]
    return one_line(" ".join(part for part in parts if part), ABOUT_WIDTH)


def _needs_something(datatype: DataType, control: Control) -> bool:
    if control in ("lines", "choices"):
        return False
    # A text may be emptied on purpose if it has a default; other kinds have no empty value.
    return datatype.required if control in ("line", "text") else not datatype.optional


def _control(datatype: DataType) -> Control:
    if datatype.is_file:
        return "line"
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
    items, default = datatype.items, datatype.default or []
    assert items is not None
    if items.optional or items.scalar not in ("str", "int", "num") or "" in items.values:
        return "json"
    if items.values:
        in_order = [value for value in items.values if value in default]
        return "choices" if default == in_order else "json"
    return "lines" if all(_is_line(one) for one in default) else "json"


def _is_line(value: object) -> bool:
    return not isinstance(value, str) or (value.strip() == value and len(value.splitlines()) == 1)


def _field_text(value: object, control: Control) -> str:
    if control == "lines":
        assert isinstance(value, list)
        return "\n".join(one if isinstance(one, str) else json.dumps(one) for one in value)
    if isinstance(value, str) and control != "json":
        return value
    return json.dumps(value, ensure_ascii=False, indent=2)


def typed_of(
    fields: Sequence[FormField], values: Mapping[str, Any], prefix: str, **more: str
) -> Typed:
    """What has to be typed into fields for some values, which may be of another machine."""
    pairs = {name: [text] for name, text in more.items()}
    for field in fields:
        value = values.get(field.name)
        if isinstance(value, Mapping) and field.datatype.is_file:
            value = value.get("path")
        if value is None:
            continue
        texts = value if isinstance(value, list) else [value]
        if field.control != "choices":
            is_odd = field.control == "lines" and not isinstance(value, list)
            texts = [_field_text(value, "text" if is_odd else field.control)]
        pairs[f"{prefix}{field.name}"] = [*map(text_or_json, texts)]
    return Typed(pairs)


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
        reader = _READERS.get(field.control)
        value = text if reader is None else reader(text, datatype)
    try:
        fault = first_misfit(value, datatype)
    except NotJudged as error:
        fault = f"could not be checked: {error}"
    if fault:
        raise NotFilledIn(fault)
    return value


def _nothing(field: FormField) -> object:
    datatype = field.datatype
    if field.is_required:
        raise NotFilledIn(NEEDED)
    if field.control == "lines" and not (datatype.optional and datatype.default is None):
        return []
    if datatype.optional:
        return _OMITTED if datatype.default is None or datatype.is_left_out else None
    return ""


def _number(text: str, datatype: DataType) -> object:
    number = parse_json(text.strip())
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise NotFilledIn(misfit(text.strip(), datatype) or "takes a number")
    is_whole = isinstance(number, float) and number.is_integer()
    return int(number) if is_whole and datatype.scalar == "int" else number


def _json(text: str, _: DataType | None = None) -> object:
    value = parse_json(text)
    if isinstance(value, NoJson):
        raise NotFilledIn(f"is not JSON: {value.reason}")
    return value


def _lines(text: str, datatype: DataType) -> object:
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    items = datatype.items
    assert items is not None
    return lines if items.scalar == "str" else [_number(line, items) for line in lines]


_READERS: Mapping[Control, Callable[[str, DataType], object]] = {
    "bool": lambda text, _: {YES: True, NO: False}.get(text, text),
    "number": _number,
    "lines": _lines,
    "json": _json,
}
"""What reads the text of a control; that of the others is the value."""

EXAMPLE_WIDTH = 250
DEPTH = 3
WORDS = {"str": "text", "int": 1, "num": 1.5, "bool": True}


def example_text(datatype: DataType) -> str:
    """An example of a list or a record as JSON on one line; empty if nothing is known of its parts.

    Parts that lie too deep are a `…`, and so is the end of a long one.
    """
    if _is_open(datatype):
        return ""
    return one_line(json.dumps(_example(datatype, DEPTH), ensure_ascii=False), EXAMPLE_WIDTH)


def _example(datatype: DataType, depth: int) -> object:
    if datatype.has_default and datatype.default is not None:
        return datatype.default
    if datatype.scalar is not None or datatype.values:
        bound = datatype.maximum if datatype.minimum is None else datatype.minimum
        some = WORDS[datatype.scalar or "str"] if bound is None else bound
        return next(iter(datatype.values), some)
    if not depth or _is_open(datatype):
        return "anything" if _is_open(datatype) else "…"
    if datatype.items is not None:
        return [_example(datatype.items, depth - 1)]
    others = {"name": datatype.others} if datatype.others is not None else {}
    fields = datatype.fields or others
    return {name: _example(one, depth - 1) for name, one in fields.items()}


def _is_open(datatype: DataType) -> bool:
    """Whether it may have any parts."""
    return not (datatype.items or datatype.fields or datatype.others or datatype.scalar)


LONGEST_NAME = 200
DELIVER_TEXT = "text"
"""What a form says that delivers a text, and not the workspace as it is."""
Faults = dict[str, str]
"""The fault in each field, by its name on the page."""


def read_given(asked: QuestionForm, typed: Typed) -> tuple[HumanAnswer | Delivery, Faults]:
    wanted = asked.question.wanted
    return _answer(asked, typed) if wanted is None else _delivery(wanted, typed)


def _answer(asked: QuestionForm, typed: Typed) -> tuple[HumanAnswer, Faults]:
    form, faults = read_fields(asked.fields, typed, FORM)
    origins: dict[str, tuple[str, ...]] = {}
    for each in asked.movable:
        name = f"{ORIGIN}{each.finding.id}"
        before = each.finding.origins
        states = tuple(typed.all(name))
        if not states and before:
            faults[name] = "choose at least one state"
        elif set(states) != set(before):
            origins[each.finding.id] = states
    limits: dict[str, Any] = {}
    for name in asked.raisable:
        if not (new := typed.one(f"{LIMIT}{name}").strip()):
            continue
        if new.isascii() and new.isdigit() and len(new) < 10:
            limits[name] = int(new)
        else:
            faults[f"{LIMIT}{name}"] = "takes a whole number"
    if not typed.one("choice"):
        faults["choice"] = "choose one"
    answer = HumanAnswer(
        choice=typed.one("choice"),
        comment=typed.one("comment"),
        form=form,
        edit=_edit(asked, typed),
        origins=origins,
        limits=limits,
        by=read_name(typed, faults),
    )
    return answer, faults


def _edit(asked: QuestionForm, typed: Typed) -> str | None:
    if asked.edited is None or not typed.all("edit"):
        return None
    now = typed.one("edit")
    return None if now == editable(asked.edited) else apply_edit(asked.edited, now)


def read_name(typed: Typed, faults: Faults) -> str:
    """The name of the sender of a form; a fault in it is added to the faults."""
    by = typed.one("by").strip()
    if not by:
        faults["by"] = NEEDED
    elif not is_name(by):
        faults["by"] = f"takes a name of at most {LONGEST_NAME} characters"
    return by


def is_name(by: str) -> bool:
    return bool(by.strip()) and len(by) <= LONGEST_NAME and by.isprintable()


def _delivery(wanted: Wanted, typed: Typed) -> tuple[Delivery, Faults]:
    faults: Faults = {}
    is_left = wanted.is_left and typed.one("what") != DELIVER_TEXT
    text = None if is_left else typed.one("artifact")
    if text is not None and not text.strip():
        faults["artifact"] = NEEDED
    elif text is not None and wanted.form == "data":
        try:
            _json(text)
        except NotFilledIn as error:
            faults["artifact"] = str(error)
    return Delivery(text=text, by=read_name(typed, faults)), faults


def fields_with_text(typed: Typed) -> Iterator[tuple[str, str]]:
    """The names and texts of all fields that have a text, so that what was typed is not lost."""
    for name, values in typed.pairs.items():
        text = ", ".join(value for value in values if value.strip())
        if text and name not in ("question", "by"):
            yield name.removeprefix(FORM), text


OPENING = "; `--set limits."
"""The hint for the command line in the text of a closed choice; a page has fields for it."""
FORM, ORIGIN, LIMIT = "form.", "origin.", "limit."
"""The prefixes of the fields of a form, of the findings and of limits."""
RAISED = {"revisions": "revisions of each author", "total_revisions": "total of revisions"}


@dataclass(frozen=True, slots=True)
class ShownArtifact:
    name: str
    number: int
    """The number of the version in the run; 0 if unknown."""
    by: str
    text: str
    change: Difference | None


@dataclass(frozen=True, slots=True)
class ShownFinding:
    finding: Finding
    text: str
    past: str


@dataclass(frozen=True, slots=True)
class QuestionForm:
    """The open question of a run, or its request to an outside agent."""

    question: Waiting
    closed: Mapping[str, str]
    """By choice: why it is closed, without the hint for the command line."""
    artifacts: Sequence[ShownArtifact]
    report: Report | None
    findings: Sequence[ShownFinding]
    way: Sequence[str]
    fields: Sequence[FormField]
    edited: str | None
    """The text that an answer may edit; None if the question offers none."""
    origins: Sequence[str]
    movable: Sequence[ShownFinding]
    raisable: Mapping[str, int]
    """The least of each limit that opens a closed choice."""
    lines: Sequence[str]
    """The commands that answer it."""

    @property
    def title(self) -> str:
        return "Open question" if self.question.wanted is None else "Wanted from outside"

    @property
    def words(self) -> Mapping[str, str]:
        """The labels of the fields on its page, except for those of the form."""
        edit, wanted = self.question.edit, self.question.wanted
        return {
            "choice": "Your answer",
            "comment": "Comment",
            "by": "Your name",
            "edit": f"Edit {edit}",
            "artifact": wanted.artifact if wanted is not None else "",
            **{f"{LIMIT}{name}": label.capitalize() for name, label in RAISED.items()},
            **{f"{ORIGIN}{one.finding.id}": one_line(one.text) for one in self.movable},
        }


def question_form(
    engine: Engine, run: RunState, versions: Mapping[str, Sequence[KeptVersion]]
) -> QuestionForm | None:
    question = run.question
    if question is None or run.status != "waiting":
        return None
    is_of_state = question.call is None and question.wanted is None
    shown, report = engine.questions.contents(run) if is_of_state else ({}, None)
    closed = [choice.closed.partition(OPENING) for choice in question.choices]
    hints = [re.findall(r"(\w+)=(\d+)", hint) for _, opening, hint in closed if opening]
    origins: Sequence[str] = ()
    if is_of_state and (last := run.last_report) is not None and last.findings:
        known = engine.program.graph.origins
        origins = known.of_artifact(last.artifact, last.author) if known else ()
    edited = shown.get(question.edit or "") or run.artifacts.get(question.edit or "")
    return QuestionForm(
        question=question,
        closed={c.name: why for c, (why, *_) in zip(question.choices, closed, strict=True)},
        artifacts=list(_artifacts(shown, versions)),
        report=report,
        findings=_findings(run, report),
        way=list(arrival_lines(engine, run)),
        fields=form_fields(parse_record(question.form)),
        edited=None if question.edit is None else _text(edited) if edited else "",
        origins=origins,
        movable=_findings(run, run.last_report) if origins else (),
        raisable={name: int(least) for hint in hints for name, least in hint},
        lines=list(waiting_hints(run.run, question)),
    )


def _text(artifact: Artifact) -> str:
    return "\n".join(artifact_lines(artifact)) if artifact.is_data else artifact.text


def _artifacts(
    shown: Mapping[str, Artifact], versions: Mapping[str, Sequence[KeptVersion]]
) -> Iterator[ShownArtifact]:
    for name, artifact in shown.items():
        known = versions.get(name, ())
        number = next((each.number for each in known if each.artifact == artifact), 0)
        by = f"{artifact.by}{version_suffix(artifact.made, names_attempt=True)}"
        change = difference(known, number) if number else None
        yield ShownArtifact(name, number, by, _text(artifact), change)


def _findings(run: RunState, report: Report | None) -> Sequence[ShownFinding]:
    if report is None:
        return ()
    texts = (f"{weight(each)}{each.message}{reviewers_of(each)}" for each in report.findings)
    return [
        ShownFinding(finding, text, history_of(finding, run, report))
        for finding, text in zip(report.findings, texts, strict=True)
    ]
