"""A judge's answer in our own words, whatever its form, and when its verdict and findings agree.

Also parts of a report: the value at a path, the meaning of a word, the identity of a finding.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, Literal, TypeAlias, TypeVar

from loopkit.engine.findings import OF_JUDGE, Answer, Defect, Finding, finding_ids
from loopkit.language.facts import Severities
from loopkit.text import shorten
from loopkit.text.json_text import canonical, parse_output
from loopkit.text.patterns import PatternTimeout
from loopkit.values import Value

VerdictWord = Literal["pass", "warn", "fail"]
LITERALS = ("true", "false", "null")
"""Words that stand in a report without quotes."""


class Doubt(Exception):
    """An answer, or a part of it, can't be read; the message says why, in sentences for the
    judge."""


@contextmanager
def noting(doubts: list[str]) -> Iterator[None]:
    """Note why what is read inside can't be read, and go on without it."""
    try:
        yield
    except (Doubt, PatternTimeout) as doubt:
        doubts.append(str(doubt))


class Misread(Value, frozen=True):
    """No verdict could be read; the reason is in sentences that the judge can act on."""

    reason: str
    last_resort: Answer | None = None
    """For a rejection, or a warning in text that names nothing: what could be read of it, which
    counts if asking again brings nothing better."""


class Opinion(Value, frozen=True, kw_only=True):
    """What a judge says, before it is known whether that can count."""

    verdict: VerdictWord | None
    """None where it is left to the findings."""
    word: str = ""
    """The verdict as the judge writes it."""
    findings: Sequence[Finding] = ()
    """Those that it names, and the earlier ones that it leaves open."""
    facts: Sequence[Finding] = ()
    """Checks that failed, and fewer criteria met than checked: they contradict no verdict, and
    count by themselves."""
    score: float | None = None
    doubts: Sequence[str] = ()
    """What of it can't be read, or contradicts itself."""
    miscounts: Sequence[str] = ()
    """Numbers that do not match what is listed: with them nothing else is believed."""
    words: str = ""
    """Its own words, for a verdict that names nothing."""
    remark: str = ""
    """What a person should know of these words."""


class AnswerForm(Value, frozen=True, kw_only=True):
    """How a judge answers: with a report in JSON, or in text."""

    levels: Severities = Severities()
    """How bad findings can be."""
    cap: str | None = None
    """The highest severity of its findings, whatever the answer says."""
    shares_keys: bool = False
    """Whether one key is one finding, whichever judge of a panel names it."""
    nonce: str = ""
    """The code that the answer has to repeat; empty for none."""

    @property
    @abstractmethod
    def instructions(self) -> str:
        """How to answer, in the words of a prompt."""

    @property
    def schema(self) -> Mapping[str, Any] | None:
        """The JSON Schema of the answer; None for text, and where it is not declared."""
        return None

    @abstractmethod
    def missing_error(self, names_any: bool) -> str:
        """The reason against a `fail` without an error; `names_any`: it has milder findings."""

    @abstractmethod
    def unwanted_error(self) -> str:
        """The reason against an error beside another verdict than `fail`."""

    def contradictions(self, said: Opinion) -> Iterator[str]:
        """Why the findings contradict the verdict, if they do."""
        severities = [one.severity for one in said.findings]
        if said.verdict == "fail":
            severities += [one.severity for one in said.facts]
        if said.verdict is None or (said.facts and not severities):
            return
        has_error = any(map(self.levels.is_severe, severities))
        # Where nothing can reject, any finding explains a verdict, whatever its severity.
        only_advises = self.cap is not None and not self.levels.is_severe(self.cap)
        start = f"The verdict is {said.word}, but"
        if said.verdict == "fail" and not (severities if only_advises else has_error):
            yield f"{start} {self.missing_error(bool(severities))}"
        elif said.verdict != "fail" and any(self.levels.rejects(s, self.cap) for s in severities):
            yield f"{start} {self.unwanted_error()}"
        elif said.verdict == "warn" and not severities:
            yield (
                f"{start} there are no findings. "
                "Name what should be better, or give another verdict."
            )


def fold(word: str) -> str:
    """The form of a word in which words are compared."""
    return word.strip().casefold()


def quote(word: str) -> str:
    """A word of a table in the form that a report has to use."""
    return word if fold(word) in LITERALS else json.dumps(word, ensure_ascii=False)


def words_for(words: Mapping[str, str], *meanings: str) -> str:
    """The words with one of these meanings, as a choice for the judge; "" if there is none."""
    return " or ".join(quote(word) for word, meant in words.items() if meant in meanings)


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
