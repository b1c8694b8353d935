"""The form of a report in JSON: places of its parts, and meanings of its words."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final, TypeAlias, TypeVar

from loopkit.language import ReportMap, Score
from loopkit.language.datatypes import DataType, conform
from loopkit.language.machine import NO_FINDING
from loopkit.text.json_text import canonical
from loopkit.validators.judges.form import AnswerForm, Doubt, VerdictWord, folded, quoted, words_for

if TYPE_CHECKING:
    from loopkit.engine.findings import Finding

Meaning = TypeVar("Meaning", bound=str)
Report: TypeAlias = dict[str, object]
VERDICTS: Mapping[str, VerdictWord] = {"pass": "pass", "warn": "warn", "fail": "fail"}


class Missing:
    """Stands for a part that a report does not have; null is one that it has."""


MISSING: Final = Missing()


@dataclass(frozen=True, kw_only=True)
class ReportForm(AnswerForm):
    """How a judge writes its report: in our form or in that of a `map`."""

    parts: ReportMap
    datatype: DataType | None = None
    """What a report of another form has to fit, if its agent declares that."""
    score: Score | None = None
    """What a report has to give as a number, if it scores."""
    known: Sequence[Finding] = ()
    """The findings of before of which a report in our form says whether each is still open."""

    items: ClassVar[str]
    """What stands in the list of findings."""
    has_verdict_once: ClassVar[bool]
    """Whether no part of a report may have a verdict of its own, as a finding of a `map` may."""

    @property
    def verdict(self) -> str:
        return self.parts.verdict or "verdict"

    @property
    def severity(self) -> str:
        return self.parts.severity or "severity"

    @property
    def verdicts(self) -> Mapping[str, VerdictWord]:
        return self.parts.verdicts or VERDICTS

    @property
    def severities(self) -> Mapping[str, str]:
        return self.parts.severities or {level: level for level in self.levels.levels}

    @property
    def has_verdict(self) -> bool:
        """Whether a report without a verdict is none."""
        return self.parts.verdict is not None or bool(self.parts.verdicts)

    @property
    def has_severity(self) -> bool:
        """Whether each finding that is an object has a severity."""
        return self.parts.severity is not None or bool(self.parts.severities)

    @property
    @abstractmethod
    def key(self) -> str | None:
        """Where the name of a finding stands that it has in every round, if it can have one."""

    @property
    @abstractmethod
    def takes_texts(self) -> bool:
        """Whether a finding may be a text instead of an object."""

    @abstractmethod
    def text_of(self, value: object) -> str | None:
        """The text that a value of a finding is; none where it is something else."""

    @abstractmethod
    def named(self, report: Report) -> Iterator[str]:
        """What a rejection says that could not be used, besides its verdict."""

    def conformed(self, report: Report) -> tuple[Report, Sequence[tuple[str, str]]]:
        """The report with the defaults of its schema, and where it breaks it."""
        if self.datatype is None:
            return report, ()
        filled, faults = conform(report, self.datatype)
        return (filled if isinstance(filled, dict) else report), faults

    def no_error(self, is_named: bool) -> str:
        errors = words_for(self.severities, *self.levels.severe)
        return (
            f"no finding has the severity {errors}. "
            "Name what has to be corrected, or give another verdict."
        )

    def an_error(self) -> str:
        errors = words_for(self.severities, *self.levels.severe)
        fails = words_for(self.verdicts, "fail")
        milder = words_for(self.severities, *self.levels.mild, NO_FINDING)
        ways = [f"the verdict {fails}"] if fails else []
        ways += [f"the finding a {milder}"] if milder else []
        return f"a finding has the severity {errors}. Make {', or '.join(ways) or 'them agree'}."


def part(record: object, path: str) -> object:
    """The value at a dotted path, MISSING where a step is none."""
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
    """What a word of a report means; an unknown one is a Doubt, never a default."""
    text = None if value is MISSING else as_text(value)
    for word, meant in words.items():
        if text is not None and folded(word) == folded(text):
            return meant
    was = "and is missing" if value is MISSING else f"not {shown(value)}"
    raise Doubt(f"{place} must be one of {', '.join(map(quoted, words))}, {was}.")


def as_text(value: object) -> str | None:
    """A text as it is, true, false, null or a number as JSON writes it; none for all else."""
    if isinstance(value, str):
        return value
    is_single = value is None or isinstance(value, bool | int | float)
    return json.dumps(value) if is_single else None


def shown(value: object) -> str:
    """A value of a report in a sentence."""
    text = canonical(value)
    return text if len(text) <= 60 else f"{text[:59]}…"
