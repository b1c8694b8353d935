"""A judge's answer in our own words, whatever its form, and when its verdict and findings agree."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

from loopkit.language.facts import Severities
from loopkit.text.patterns import PatternTimeout
from loopkit.values import Value

if TYPE_CHECKING:
    from loopkit.engine.findings import Answer, Finding

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
