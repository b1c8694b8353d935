"""The form of a judge's answer: what its three forms share, and when verdict and findings agree."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from loopkit.language.severities import Severities
from loopkit.values import Value

if TYPE_CHECKING:
    from loopkit.engine.findings import Answer

VerdictWord = Literal["pass", "warn", "fail"]
LITERALS = ("true", "false", "null")
"""Words that stand in a report without quotes."""


class Doubt(Exception):
    """Why an answer is not taken, in sentences for the judge."""


class NamesNothing(Doubt):
    """Something should be better, and nothing says what."""


class Misread(Value, frozen=True):
    """No verdict could be read; the reason is in sentences that the judge can act on."""

    reason: str
    last_resort: Answer | None = None
    """Where it did reject, or warned in text and named nothing: that, in its own words, for when
    asking again gives nothing better."""


class AnswerForm(Value, frozen=True, kw_only=True):
    """How a judge answers: with a report in JSON, or in text."""

    levels: Severities = Severities()
    """How bad findings can be."""
    cap: str | None = None
    """The most that its findings count, whatever it calls them."""
    shares_keys: bool = False
    """Whether one key is one finding, whichever judge of a panel names it."""
    nonce: str = ""
    """What the answer has to repeat; empty for nothing."""

    @property
    @abstractmethod
    def instructions(self) -> str:
        """How to answer, as a prompt says it."""

    @property
    def schema(self) -> Mapping[str, Any] | None:
        """The JSON Schema of the answer; none for text, and where nobody declares it."""
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
        """Raises Doubt where a verdict, given by this word, and its findings say two things."""
        has_error = any(map(self.levels.is_severe, severities))
        # Where nothing can reject, what is named has been said, whatever it was called.
        only_advises = self.cap is not None and not self.levels.is_severe(self.cap)
        said = f"The verdict is {word}, but"
        if verdict == "fail" and not (severities if only_advises else has_error):
            raise Doubt(f"{said} {self.missing_error(bool(severities))}")
        if verdict != "fail" and any(self.levels.rejects(one, self.cap) for one in severities):
            raise Doubt(f"{said} {self.unwanted_error()}")
        if verdict == "warn" and not severities:
            raise NamesNothing(
                f"{said} there are no findings. "
                "Name what should be better, or give another verdict."
            )


def fold(word: str) -> str:
    """A word as it is compared."""
    return word.strip().casefold()


def quote(word: str) -> str:
    """A word of a table as the report has to write it."""
    return word if fold(word) in LITERALS else json.dumps(word, ensure_ascii=False)


def words_for(words: Mapping[str, str], *meanings: str) -> str:
    """The words with one of these meanings, as a choice for the judge; "" if there is none."""
    return " or ".join(quote(word) for word, meant in words.items() if meant in meanings)
