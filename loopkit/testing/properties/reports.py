"""Reports of a judge, written so that they are read as a wanted verdict and findings."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from loopkit.language.datatypes import DataType
from loopkit.testing.properties.samples import Hints, smallest
from loopkit.validators.judges.form import fold
from loopkit.validators.judges.report_form import ReportForm
from loopkit.validators.judges.report_parts import as_text


@dataclass(frozen=True, slots=True)
class Found:
    """One finding that a report should have."""

    level: str
    """Its severity."""
    code: str = ""
    origin: str = ""
    """The state that injected it, if the report names one."""


def report(form: ReportForm, verdict: str, found: Sequence[Found], label: str) -> Any:
    """The data of a report in this form; its messages name the label, so that rounds differ."""
    data = _base(form.datatype, label)
    if form.has_verdict:
        _put(data, form.verdict, _word(form.verdicts, verdict))
    item_type = _type_at(form.datatype, f"{form.parts.findings}.0")
    items = [
        _item(form, one, item_type, label if place == 1 else f"{label}.{place}")
        for place, one in enumerate(found, 1)
    ]
    _put(data, form.parts.findings, items)
    _agree(data, form, found)
    return data


def _agree(data: dict[str, Any], form: ReportForm, found: Sequence[Found]) -> None:
    """Put in the numbers and checks that match the listed findings."""
    words = [_word(form.severities, one.level) for one in found]
    for severity, path in form.parts.counts.items():
        is_word = fold(severity) in map(fold, form.severities)
        named = words if is_word else [one.level for one in found]
        _put(data, path, sum(fold(str(one)) == fold(severity) for one in named))
    if form.parts.met is not None and form.parts.checked is not None:
        _put(data, form.parts.met, 1)
        _put(data, form.parts.checked, 1)
    for check in form.parts.checks:
        _put(data, check, True)


def _base(datatype: DataType | None, label: str) -> dict[str, Any]:
    data = smallest(datatype, Hints(label)) if datatype is not None else None
    return data if isinstance(data, dict) else {}


def _item(form: ReportForm, one: Found, datatype: DataType | None, label: str) -> Any:
    message = f"Suggested finding {label}."
    if datatype is not None and datatype.scalar == "str":
        return message
    item = _base(datatype, label)
    if form.has_severity:
        _put(item, form.severity, _word(form.severities, one.level))
    _put(item, form.parts.message, message)
    if form.parts.key is not None:
        _put(item, form.parts.key, label)
    if one.origin and form.origin is not None:
        named = {word: states[0] for word, states in form.origin_words.items() if states}
        _put(item, form.origin, _word(named, one.origin))
    if one.code:
        _put(item, form.parts.code, _word(form.parts.codes or {one.code: one.code}, one.code))
    return item


def _word(words: Mapping[str, str], meaning: str) -> Any:
    """The word of a table for this meaning, as a value of a report; without one, the meaning."""
    word = next((word for word, meant in words.items() if meant == meaning), meaning)
    try:
        value = json.loads(word)
    except ValueError:
        return word
    return value if as_text(value) is not None else word


def _put(record: dict[str, Any], path: str, value: Any) -> None:
    *steps, last = path.split(".")
    for step in steps:
        inner = record.get(step)
        record[step] = inner if isinstance(inner, dict) else {}
        record = record[step]
    record[last] = value


def _type_at(datatype: DataType | None, path: str) -> DataType | None:
    """The type at a dotted path, `0` for the items of a list."""
    for step in path.split("."):
        if datatype is None:
            return None
        is_item = step == "0" and datatype.items is not None
        datatype = datatype.items if is_item else (datatype.fields or {}).get(step)
    return datatype
