"""The form of a review in text: patterns for verdict and findings, and meanings of words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, TypeAlias

from loopkit.language import VerdictReading
from loopkit.language.machine import NO_FINDING
from loopkit.language.severities import Severities
from loopkit.validators.judges.report_form import folded

VerdictWord: TypeAlias = Literal["pass", "warn", "fail"]
DEFAULT_WORDS: Mapping[str, VerdictWord] = {"PASS": "pass", "WARN": "warn", "FAIL": "fail"}

_MARKS = r"(?:[^\w\n`>\"“?]|_)*+"
"""Bullets, emphasis, colons, signs: what may stand around a verdict. Not `>`, which quotes."""
_STAMP = r"(?:\[[^\]\n]{1,40}\][ \t]*+|\d[\d:.,/TZ+-]*+[ \t]++){0,3}"
_BEFORE = (
    r"(?:(?:here(?:[’']s|[ ]is)|the|my|our|this|final|overall|task|review|reviewer(?:[’']s)?"
    r"|validation|validator|verification)[ \t]+){0,4}+"
)
_LABEL = rf"^[ \t]*+{_STAMP}{_MARKS}{_STAMP}{_BEFORE}verdict\b"
_SIGN = r"(?:(?:(?:[^\w\n>\"“]|_)*+[\"“])*+(?:[^\w\n>\"“:=]|_)*+[:=]|(?:[^\w\n>]|_)*?[ \t]is\b)"
"""A colon behind which nothing is quoted, or "is"."""
LABELLED = (
    rf"(?i){_LABEL}(?:"
    rf"{_SIGN}(?:[^\w\n>\"“]|_)*+(?P<verdict>WORDS|(?>\w+(?:-\w+)*))"
    rf"|(?:[^\w\n]|_)*+(?P<verdict>WORDS)"
    rf"|(?:[^\w\n]|_)*+\n\s*+{_MARKS}(?P<verdict>WORDS))"
)
"""A line of its own with `Verdict` and a word, or such a heading with the word below."""
BARE = rf"(?i)^(?![ \t]*+(?:[-+*•]|\d+[.)])[ \t]){_MARKS}(?P<verdict>WORDS)(?:[^\w\n`\"?]|_)*$"
"""A line that holds nothing but a word."""
LISTED = (
    r"(?i)^[ \t]*+(?:\d+[.)][ \t]++)?(?:[^\w\n`>\[|]|_)*+\[[*_]*(?P<severity>WORDS)[*_]*\]"
    r"(?:[^\w\n`\[(/.]|_)*(?P<message>\S.*(?:\n[ \t]{2,}+(?![-+*•]|\d+[.)])\S.*)*)$"
)
"""`- [FAIL] text`; lines that are indented below go on with the text."""
_BETWEEN = r"(?:[^\w\n/|,\\]|_)*+"
CHOICE = (
    rf"(?i)WORDS(?:(?:{_BETWEEN}(?:[/|,\\]|\b(?:or|and|vs)\b))++{_BETWEEN}"
    rf"\n?{_BETWEEN}(?:verdict\b{_BETWEEN})?WORDS)+"
)
"""What separates words that are offered; a line may end behind its "or" or comma."""
IN_MESSAGE = (
    r"(?<![\w/.@+~-])(?P<file>(?:[\w.@+~-]+[/\\])+[\w.@+-]+|[\w@+-][\w.@+-]*\.[A-Za-z]\w{0,7})"
    r":(?P<line>\d{1,9})(?!\w)"
)
"""A file and a line of it, as in `src/plan.py:12`."""


@dataclass(frozen=True)
class VerdictForm:
    """How verdicts are read out of a text, with everything that is needed for it."""

    reading: VerdictReading = field(default_factory=VerdictReading)
    named: Mapping[str, str] = field(default_factory=dict)
    """The machine's patterns, by name."""
    levels: Severities = Severities()
    cap: str | None = None
    """The most that its findings count, whatever it calls them."""
    shares_keys: bool = False
    """Whether one key is one finding, whichever judge of a panel names it."""

    @property
    def words(self) -> Mapping[str, VerdictWord]:
        return self.reading.words or DEFAULT_WORDS

    def pattern(self, written: str) -> str:
        """A pattern of the reading, by its name or as it is."""
        return self.named.get(written, written)

    @cached_property
    def labelled(self) -> str:
        return LABELLED.replace("WORDS", _any_of(self.words))

    @cached_property
    def bare(self) -> str:
        return BARE.replace("WORDS", _any_of(self.words))

    @cached_property
    def listed(self) -> str:
        if self.reading.findings is not None:
            return self.pattern(self.reading.findings)
        return LISTED.replace("WORDS", _any_of((*self.words, *self.levels.levels)))

    @cached_property
    def choice(self) -> str:
        """Words of which somebody is to choose one: `PASS/FAIL`, `PASS or FAIL`."""
        return CHOICE.replace("WORDS", _any_of(self.words))

    def meaning(self, word: str) -> VerdictWord | None:
        """What a word of a verdict means; none where it is unknown."""
        known = {folded(own): meant for own, meant in self.words.items()}
        return known.get(folded(word))

    @cached_property
    def failing(self) -> str:
        """The words that mean `fail`, and the severities that do."""
        words = (word for word, meant in self.words.items() if meant == "fail")
        return f"(?i){_any_of((*words, *self.levels.severe))}"

    def level(self, word: str) -> str | None:
        """The severity that a word of a finding stands for; `none` is no finding."""
        match self.meaning(word):
            case "pass":
                return NO_FINDING
            case "warn":
                return self.levels.advisory
            case "fail":
                return self.levels.ungraded
        return next((level for level in self.levels.levels if level == folded(word)), None)


def _any_of(words: Iterable[str]) -> str:
    """A pattern for whole words; the longest first, because one may begin like another."""
    import regex  # noqa: PLC0415 - costs 40 ms, most commands need none

    listed = sorted({word.strip() for word in words if word.strip()}, key=len, reverse=True)
    # An underscore may be emphasis; inside a longer word it is not.
    return rf"(?<![^\W_]_*)(?:{'|'.join(map(regex.escape, listed))})(?!\w*[^\W_]|-\w)"
