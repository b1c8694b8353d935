"""Parts of a report: the value at a path, the meaning of a word, the identity of a finding."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias, TypeVar

from loopkit.engine.findings import OF_JUDGE, Defect, Finding, finding_ids
from loopkit.text import shorten
from loopkit.text.json_text import canonical, parse_output
from loopkit.validators.judges.form import AnswerForm, Doubt, fold, quote

Meaning = TypeVar("Meaning", bound=str)
Report: TypeAlias = dict[str, object]
MISSING: Final = object()
"""A part that a report does not have; null is a part that it has."""
MAX_LINE = 2**31
OWN_WORDS_CHARS = 8_000
"""The most characters of a judge's own words in one finding."""


def part(record: object, path: str) -> object:
    """The value at a dotted path, MISSING where a step does not exist.

    The path may lead through a text that holds JSON.
    """
    value = record
    for step in path.split("."):
        if isinstance(value, str):
            value = parse_output(value)
        if not isinstance(value, Mapping) or step not in value:
            return MISSING
        value = value[step]
    return value


def is_absent(value: object) -> bool:
    return value is MISSING or value is None


def meaning(value: object, words: Mapping[str, Meaning], place: str) -> Meaning:
    """The meaning of a word in a report; raises Doubt for an unknown one, never a default."""
    text = None if value is MISSING else as_text(value)
    for word, meant in words.items():
        if text is not None and fold(word) == fold(text):
            return meant
    raise Doubt(f"{place} must be one of {', '.join(map(quote, words))}, {but_was(value)}.")


def but_was(value: object) -> str:
    """What a value is instead of what it must be."""
    return "and is missing" if value is MISSING else f"not {excerpt(value)}"


def as_text(value: object) -> str | None:
    """A text unchanged; true, false, null or a number as JSON; None for anything else."""
    if isinstance(value, str):
        return value
    is_single = value is None or isinstance(value, bool | int | float)
    return json.dumps(value) if is_single else None


def excerpt(value: object) -> str:
    """A value of a report, short enough for a sentence."""
    return shorten(canonical(value), 60)


def unmet_criteria(validator: str, met: int, checked: int, form: AnswerForm) -> tuple[Finding, ...]:
    """A warning where fewer criteria are met than were checked; raises Doubt where more are."""
    if met > checked:
        raise Doubt(f"It says that {met} criteria are met, and that {checked} were checked.")
    if met == checked:
        return ()
    message = f"{met} of {checked} criteria are met."
    # The numbers change from round to round, and it stays the same finding.
    own = Finding(id="", message=message, severity=form.levels.advisory, key="unmet criteria")
    return tuple(identify(validator, [own], form))


def identify(
    validator: str, findings: Sequence[Finding], form: AnswerForm, rule: str = OF_JUDGE
) -> list[Finding]:
    """The findings with their ids, and with whether they block."""
    defects = [Defect(rule, one.location, one.message, one.key) for one in findings]
    ids = finding_ids(validator, defects, shares_keys=form.shares_keys)
    return [
        one.replace(
            id=identity,
            blocking=form.levels.is_severe(one.severity),
            validator=validator,
            rule=rule,
        )
        for identity, one in zip(ids, findings, strict=True)
    ]
