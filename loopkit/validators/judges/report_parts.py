"""Parts of a report in JSON: the value at a path, the meaning of a word, the record of a fault."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias, TypeVar

from loopkit.engine.findings import OF_JUDGE, Defect, Finding, finding_ids
from loopkit.text import shorten
from loopkit.text.json_text import canonical
from loopkit.validators.fault import Fault, finding_of
from loopkit.validators.judges.form import AnswerForm, Doubt, fold, quote

Meaning = TypeVar("Meaning", bound=str)
Report: TypeAlias = dict[str, object]
MISSING: Final = object()
"""A part that a report does not have; null is a part that it has."""


def part(record: object, path: str) -> object:
    """The value at a dotted path, MISSING where a step does not exist."""
    value = record
    for step in path.split("."):
        if not isinstance(value, Mapping) or step not in value:
            return MISSING
        value = value[step]
    return value


def key_of(path: str) -> str:
    """The name of the field at the end of a path."""
    return path.rpartition(".")[2]


def meaning(value: object, words: Mapping[str, Meaning], place: str) -> Meaning:
    """The meaning of a word in a report; raises Doubt for an unknown one, never a default."""
    text = None if value is MISSING else as_text(value)
    for word, meant in words.items():
        if text is not None and fold(word) == fold(text):
            return meant
    was = "and is missing" if value is MISSING else f"not {excerpt(value)}"
    raise Doubt(f"{place} must be one of {', '.join(map(quote, words))}, {was}.")


def as_text(value: object) -> str | None:
    """A text unchanged; true, false, null or a number as JSON; None for anything else."""
    if isinstance(value, str):
        return value
    is_single = value is None or isinstance(value, bool | int | float)
    return json.dumps(value) if is_single else None


def excerpt(value: object) -> str:
    """A value of a report, short enough for a sentence."""
    return shorten(canonical(value), 60)


MAX_LINE = 2**31
OWN_WORDS_CHARS = 2_000
"""The most characters of a judge's own words that replace findings it does not name."""


def criteria_faults(met: int, checked: int, form: AnswerForm) -> list[Fault]:
    """A warning where fewer criteria are met than were checked."""
    if met == checked:
        return []
    message = f"{met} of {checked} criteria are met."
    return [Fault(message, "unmet criteria", severity=form.levels.advisory, value=met)]


def findings_of(
    validator: str, faults: Sequence[Fault], form: AnswerForm, rule: str = OF_JUDGE
) -> list[Finding]:
    defects = [Defect(rule, fault.location, fault.steady, fault.key) for fault in faults]
    ids = finding_ids(validator, defects, shares_keys=form.shares_keys)
    return [
        finding_of(validator, rule, one, fault, blocking=form.levels.is_severe(fault.severity))
        for one, fault in zip(ids, faults, strict=True)
    ]
