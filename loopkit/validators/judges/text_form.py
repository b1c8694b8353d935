"""The form of a verdict in text: the instructions for a judge, and what its words mean."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property

from loopkit.language import VerdictReading
from loopkit.language.machine import NO_FINDING
from loopkit.language.template import parse
from loopkit.validators.judges.form import AnswerForm, VerdictWord, fold, words_for
from loopkit.values import field

DEFAULT_WORDS: Mapping[str, VerdictWord] = {"PASS": "pass", "WARN": "warn", "FAIL": "fail"}

_MARKS = r"(?:[^\w\n`>\"“?]|_)*+"
"""What may surround a verdict: bullets, emphasis, colons, signs. Not `>`, which quotes."""
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
"""`- [FAIL] text`; indented lines below continue the text."""
_BETWEEN = r"(?:[^\w\n/|,\\]|_)*+"
CHOICE = (
    rf"(?i)WORDS(?:(?:{_BETWEEN}(?:[/|,\\]|\b(?:or|and|vs)\b))++{_BETWEEN}"
    rf"\n?{_BETWEEN}(?:verdict\b{_BETWEEN})?WORDS)+"
)
"""Words to choose from, with what separates them; a line may end after its "or" or comma."""
IN_MESSAGE = (
    r"(?<![\w/.@+~-])(?P<file>(?:[\w.@+~-]+[/\\])+[\w.@+-]+|[\w@+-][\w.@+-]*\.[A-Za-z]\w{0,7})"
    r":(?P<line>\d{1,9})(?!\w)"
)
"""A file and a line of it, as in `src/plan.py:12`."""

_FORM = """\
Answer in plain text, without a code fence around it.

{% if listed is none %}
Name each finding on a line of its own that starts with a dash and a word in square brackets, \
then the file and line if there are any, and what is wrong and what is expected instead:

- [{{ example }}] src/example.txt:12: what is wrong there
{% else %}
Name each finding so that this regular expression finds it: {{ listed }}
{% endif %}

{% if grades and severe %}
- {{ severe }} as the word of a finding: it has to be corrected.
{% endif %}
{% if grades and mild %}
- {{ mild }} as the word of a finding: it should be.
{% endif %}

{% if counts %}
Say how many criteria you checked and how many are met, so that these regular expressions find \
the numbers: {{ counts.checked }} and {{ counts.met }}

{% endif %}
{% if pattern is none %}
The last line gives your verdict: "Verdict:" and one of the words {{ words }}.
{% else %}
Give your verdict so that this regular expression finds it, with one of the words {{ words }}: \
{{ pattern }}
{% endif %}

{% if fails %}
- {{ fails }}: something has to be corrected; at least one finding says what.
{% endif %}
{% if warns %}
- {{ warns }}: nothing has to be, but something should; at least one finding says what.
{% endif %}
{% if passes %}
- {{ passes }}: nothing is wrong.
{% endif %}"""


class TextForm(AnswerForm, frozen=True, kw_only=True, dict=True):
    """How verdicts are read from a text."""

    reading: VerdictReading = field(default_factory=VerdictReading)
    patterns: Mapping[str, str] = field(default_factory=dict)
    """The machine's patterns, by name."""

    @property
    def words(self) -> Mapping[str, VerdictWord]:
        return self.reading.words or DEFAULT_WORDS

    def pattern(self, written: str) -> str:
        """A pattern of the reading, which names one of the machine or is one itself."""
        return self.patterns.get(written, written)

    @cached_property
    def labelled(self) -> str:
        return _with_words(LABELLED, self.words)

    @cached_property
    def bare(self) -> str:
        return _with_words(BARE, self.words)

    @cached_property
    def listed(self) -> str:
        if self.reading.findings is not None:
            return self.pattern(self.reading.findings)
        return _with_words(LISTED, (*self.words, *self.levels.levels))

    @cached_property
    def choice(self) -> str:
        """A pattern for a list of options, such as `PASS/FAIL` or `PASS or FAIL`."""
        return _with_words(CHOICE, self.words)

    def meaning(self, word: str) -> VerdictWord | None:
        """The meaning of a word of a verdict; None where it is unknown."""
        known = {fold(own): meant for own, meant in self.words.items()}
        return known.get(fold(word))

    @cached_property
    def failing(self) -> str:
        """A pattern for the words and the severities that mean `fail`."""
        words = (word for word, meant in self.words.items() if meant == "fail")
        return f"(?i){_any_of((*words, *self.levels.severe))}"

    def level(self, word: str) -> str | None:
        """The severity that a word of a finding stands for; `none` is not a finding."""
        match self.meaning(word):
            case "pass":
                return NO_FINDING
            case "warn":
                return self.levels.advisory
            case "fail":
                return self.levels.ungraded
        return next((level for level in self.levels.levels if level == fold(word)), None)

    @property
    def instructions(self) -> str:
        reading, levels = self.reading, self.levels
        # Where every finding rejects, there is nothing to warn of.
        offered = {w: meant for w, meant in self.words.items() if meant != "warn" or levels.mild}
        words = {**offered, **{level: level for level in levels.levels}}
        findings, pattern, counts = reading.findings, reading.pattern, reading.counts
        return parse(_FORM).render(
            {
                "listed": None if findings is None else self.pattern(findings),
                "grades": findings is None or "(?P<severity>" in self.pattern(findings),
                "example": next(
                    (word for word, meant in words.items() if meant == "fail"), levels.worst
                ),
                "severe": words_for(words, "fail", *levels.severe),
                "mild": words_for(words, "warn", *levels.mild),
                "counts": counts
                and {"met": self.pattern(counts.met), "checked": self.pattern(counts.checked)},
                "pattern": None if pattern is None else self.pattern(pattern),
                "words": ", ".join(f'"{word}"' for word in offered),
                "fails": words_for(offered, "fail"),
                "warns": words_for(offered, "warn"),
                "passes": words_for(offered, "pass"),
            }
        )

    def missing_error(self, names_any: bool) -> str:
        return (
            "no finding says what has to be corrected. "
            "Name it in the form of a finding, or give another verdict."
        )

    def unwanted_error(self) -> str:
        return "a finding says that something has to be corrected. Make them agree."


def _with_words(pattern: str, words: Iterable[str]) -> str:
    """The pattern with these words in place of WORDS."""
    return pattern.replace("WORDS", _any_of(words))


def _any_of(words: Iterable[str]) -> str:
    """A pattern for whole words; the longest first, because one may begin like another."""
    import regex  # noqa: PLC0415 - costs 40 ms, most commands need none

    listed = sorted({word.strip() for word in words if word.strip()}, key=len, reverse=True)
    # An underscore may be emphasis; inside a longer word it is not.
    return rf"(?<![^\W_]_*)(?:{'|'.join(map(regex.escape, listed))})(?!\w*[^\W_]|-\w)"
