"""Forms in which the user of a client answers the question of a run: its choices and its fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from loopkit.engine.events import HumanAnswer, Waiting
from loopkit.language.datatypes import DataType, describe_type, parse_record
from loopkit.language.datatypes.datatype import SCALARS

CHOICE = "choice"
COMMENT = "comment"
LONGEST_REVIEW = 6_000
"""Characters of the review that are shown above a form."""


def form_of(question: Waiting) -> dict[str, Any] | None:
    """The JSON Schema of the form of a question; None if single values are not enough for it."""
    fields = parse_record(question.form).fields or {}
    open_ones = [choice for choice in question.choices if not choice.closed]
    if not open_ones or question.wanted is not None:
        return None
    if any(field.scalar is None for field in fields.values()) or {CHOICE, COMMENT} & fields.keys():
        return None
    names = [choice.name for choice in open_ones]
    properties: dict[str, Any] = {CHOICE: {"type": "string", "title": "Your choice", "enum": names}}
    if any(choice.takes_comment for choice in open_ones):
        needing = ", ".join(choice.name for choice in open_ones if choice.needs_comment)
        about = f"Needed with: {needing}" if needing else "What should change, if anything"
        properties[COMMENT] = {"type": "string", "title": "Comment", "description": about}
    properties |= {name: _field(field) for name, field in fields.items()}
    required = [name for name, field in fields.items() if field.required]
    return {"type": "object", "properties": properties, "required": [CHOICE, *required]}


def _field(field: DataType) -> dict[str, Any]:
    """A field in the part of JSON Schema that clients support."""
    shown: dict[str, Any] = {
        "type": SCALARS[field.scalar or "str"],
        "description": describe_type(field),
    }
    if field.values:
        shown["enum"] = list(field.values)
    limits = {"minimum": field.minimum, "maximum": field.maximum, "default": field.default}
    return shown | {name: value for name, value in limits.items() if value is not None}


def answer_in(content: Mapping[str, Any], question: Waiting, by: str) -> HumanAnswer:
    """The answer in a filled-in form, which has not been checked."""
    fields = parse_record(question.form).fields or {}
    filled = {name: content[name] for name in fields if content.get(name) is not None}
    # A client may send an empty text for a field that was not filled in.
    form = {name: value for name, value in filled.items() if value != "" or fields[name].required}
    return HumanAnswer(
        choice=_text(content.get(CHOICE)),
        comment=_text(content.get(COMMENT)),
        form=form,
        by=by,
    )


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def form_message(review: str, question: Waiting, run: str, refused: str = "") -> str:
    """The text above a form: the review with the question, cut if it is too long.

    `refused` says why the previous answer was refused.
    """
    if len(review) > LONGEST_REVIEW:
        half = LONGEST_REVIEW // 2
        cut = f"\n… (all of it: `loopkit runs show {run}`)\n"
        review = review[:half] + cut + review[-half:]
    before = f"Your answer was not taken: {refused}\n\n" if refused else ""
    more = (
        f"\nTo answer with an edited `{question.edit}`: `loopkit answer {run} CHOICE --edit FILE`"
    )
    return f"{before}{review.strip()}{more if question.edit is not None else ''}"
