"""Answers and deliveries, read from the fields of the form of a question on a page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from loopkit.drive.answers import TOTAL_LIMIT
from loopkit.engine.events import Delivery, HumanAnswer, Wanted
from loopkit.text.editing import apply_edit, editable
from loopkit.text.json_text import NoJson, parse_json
from loopkit.views.page.asked import FORM, LIMIT, ORIGIN, QuestionForm
from loopkit.views.page.fields import NEEDED, Typed, read_fields

LONGEST_NAME = 200
"""Characters of a name."""
DELIVER_WORKSPACE, DELIVER_TEXT = "workspace", "text"
"""What a form delivers: the workspace as it is, or a text."""
Faults = dict[str, str]
"""The fault in each field, by its name on the page."""


def read_given(asked: QuestionForm, typed: Typed) -> tuple[HumanAnswer | Delivery, Faults]:
    """The answer or the delivery in a form that was sent, and the faults in its fields."""
    wanted = asked.question.wanted
    return _answer(asked, typed) if wanted is None else _delivery(wanted, typed)


def _answer(asked: QuestionForm, typed: Typed) -> tuple[HumanAnswer, Faults]:
    form, faults = read_fields(asked.fields, typed, FORM)
    origins: dict[str, tuple[str, ...]] = {}
    for each in asked.movable:
        name, before = f"{ORIGIN}{each.finding.id}", each.finding.origins
        states = tuple(typed.all(name))
        if not states and before:
            faults[name] = "choose at least one state"
        elif set(states) != set(before):
            origins[each.finding.id] = states
    limits: dict[str, Any] = {}
    if total := typed.one(LIMIT).strip():
        if total.isascii() and total.isdigit() and len(total) < 10:
            limits[TOTAL_LIMIT] = int(total)
        else:
            faults[LIMIT] = "takes a whole number"
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
    """The edited text; None if it was not changed."""
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
    """Whether a text can be the name of a person who answers or delivers."""
    return bool(by.strip()) and len(by) <= LONGEST_NAME and by.isprintable()


def _delivery(wanted: Wanted, typed: Typed) -> tuple[Delivery, Faults]:
    faults: Faults = {}
    is_left = wanted.is_left and typed.one("what") != DELIVER_TEXT
    text = None if is_left else typed.one("artifact")
    if text is not None and not text.strip():
        faults["artifact"] = NEEDED
    elif text is not None and wanted.form == "data":
        value = parse_json(text)
        if isinstance(value, NoJson):
            faults["artifact"] = f"is not JSON: {value.reason}"
    return Delivery(text=text, by=read_name(typed, faults)), faults


def fields_with_text(typed: Typed) -> Iterator[tuple[str, str]]:
    """The names and texts of all fields that have a text, so that what was typed is not lost."""
    for name, values in typed.pairs.items():
        if name in ("question", "by"):
            continue
        if text := ", ".join(value for value in values if value.strip()):
            yield name.removeprefix(FORM), text
