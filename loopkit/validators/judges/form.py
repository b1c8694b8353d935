"""The form of a judge's answer: what its three forms share, and when verdict and findings agree."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from loopkit.language.facts import Severities
from loopkit.values import Value

if TYPE_CHECKING:
    from loopkit.engine.findings import Answer

VerdictWord = Literal["pass", "warn", "fail"]
LITERALS = ("true", "false", "null")
"""Words that stand in a report without quotes."""


class Doubt(Exception):
    """An answer is not accepted; the message has the reason, in sentences for the judge."""


class NamesNothing(Doubt):
    """The verdict is a warning, and no finding says what should be better."""


class Misread(Value, frozen=True):
    """No verdict could be read; the reason is in sentences that the judge can act on."""

    reason: str
    last_resort: Answer | None = None
    """For a rejection, or a warning in text that names nothing: an answer in the judge's own words,
    which counts if asking again brings nothing better."""


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

    def refuse_contradiction(
        self, verdict: VerdictWord, word: str, severities: Sequence[str]
    ) -> None:
        """Raise Doubt where the findings contradict the verdict, which is given by `word`."""
        has_error = any(map(self.levels.is_severe, severities))
        # Where nothing can reject, any finding explains a verdict, whatever its severity.
        only_advises = self.cap is not None and not self.levels.is_severe(self.cap)
        start = f"The verdict is {word}, but"
        if verdict == "fail" and not (severities if only_advises else has_error):
            raise Doubt(f"{start} {self.missing_error(bool(severities))}")
        if verdict != "fail" and any(self.levels.rejects(one, self.cap) for one in severities):
            raise Doubt(f"{start} {self.unwanted_error()}")
        if verdict == "warn" and not severities:
            raise NamesNothing(
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
