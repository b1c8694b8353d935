"""The form of a judge's report, ours or by a `map`: places of its parts, meanings of words."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, TypeVar

from loopkit.language import Agent, JudgeRule, ReportMap, Score
from loopkit.language.datatypes import DataType, parse_fields
from loopkit.language.severities import Severities
from loopkit.text.json_text import canonical

if TYPE_CHECKING:
    from loopkit.engine.findings import Finding

Meaning = TypeVar("Meaning", bound=str)
VerdictWord = Literal["pass", "warn", "fail"]
OWN_VERDICTS: Mapping[str, VerdictWord] = {"pass": "pass", "warn": "warn", "fail": "fail"}
LITERALS = ("true", "false", "null")
"""Words that stand in a report without quotes."""


class Missing:
    """Stands for a part that a report does not have; null is one that it has."""


MISSING: Final = Missing()


class Doubt(Exception):
    """Why a report is not taken, in sentences for the judge."""


@dataclass(frozen=True, slots=True)
class ReportForm:
    """How a judge writes its report."""

    parts: ReportMap = field(default_factory=ReportMap)
    is_own: bool = True
    """Whether it is our form, in which a report has a verdict and each finding a severity."""
    datatype: DataType | None = None
    """What a report of another form has to fit, if its agent declares that."""
    levels: Severities = Severities()
    """How bad findings can be."""
    score: Score | None = None
    """What a report has to give as a number, if it scores."""
    cap: str | None = None
    """The most that its findings count, whatever it calls them."""
    known: Sequence[Finding] = ()
    """The findings of before of which a report in our form says whether each is still open."""
    shares_keys: bool = False
    """Whether one key is one finding, whichever judge of a panel names it."""

    @property
    def verdict(self) -> str:
        return self.parts.verdict or "verdict"

    @property
    def severity(self) -> str:
        return self.parts.severity or "severity"

    @property
    def verdicts(self) -> Mapping[str, VerdictWord]:
        return self.parts.verdicts or OWN_VERDICTS

    @property
    def severities(self) -> Mapping[str, str]:
        return self.parts.severities or {level: level for level in self.levels.levels}

    @property
    def has_verdict(self) -> bool:
        """Whether a report without a verdict is none."""
        return self.is_own or self.parts.verdict is not None or bool(self.parts.verdicts)

    @property
    def has_severity(self) -> bool:
        """Whether each finding that is an object has a severity."""
        return self.is_own or self.parts.severity is not None or bool(self.parts.severities)


def form_of(rule: JudgeRule, agent: Agent, levels: Severities) -> ReportForm:
    """The form of a judge's report; the `schema:` of its agent counts beside a `map` only."""
    if rule.map is None:
        return ReportForm(levels=levels, score=rule.score, cap=rule.severity)
    datatype = parse_fields(agent.schema_) if agent.schema_ else None
    return ReportForm(rule.map, False, datatype, levels, rule.score, rule.severity)


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
    said = None if value is MISSING else _as_word(value)
    for word, meant in words.items():
        if folded(word) == said:
            return meant
    was = "and is missing" if value is MISSING else f"not {shown(value)}"
    raise Doubt(f"{place} must be one of {', '.join(map(quoted, words))}, {was}.")


def folded(word: str) -> str:
    """A word as it is compared."""
    return word.strip().casefold()


def as_text(value: object) -> str | None:
    """A text as it is, true, false, null or a number as JSON writes it; none for all else."""
    if isinstance(value, str):
        return value
    is_single = value is None or isinstance(value, bool | int | float)
    return json.dumps(value) if is_single else None


def words_for(words: Mapping[str, str], *meanings: str) -> str:
    """The words with one of these meanings, as a choice for the judge; "" if there is none."""
    return " or ".join(quoted(word) for word, meant in words.items() if meant in meanings)


def quoted(word: str) -> str:
    """A word of a table as the report has to write it."""
    return word if folded(word) in LITERALS else json.dumps(word, ensure_ascii=False)


def shown(value: object) -> str:
    """A value of a report in a sentence."""
    text = canonical(value)
    return text if len(text) <= 60 else f"{text[:59]}…"


def _as_word(value: object) -> str | None:
    text = as_text(value)
    return None if text is None else folded(text)
