"""Patterns for verdicts and findings in text, as reviewers write them where nobody says how."""

from __future__ import annotations

from collections.abc import Iterable

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


def with_words(pattern: str, words: Iterable[str]) -> str:
    """A pattern with these in the place of its WORDS."""
    return pattern.replace("WORDS", any_of(words))


def any_of(words: Iterable[str]) -> str:
    """A pattern for whole words; the longest first, because one may begin like another."""
    import regex  # noqa: PLC0415 - costs 40 ms, most commands need none

    listed = sorted({word.strip() for word in words if word.strip()}, key=len, reverse=True)
    # An underscore may be emphasis; inside a longer word it is not.
    return rf"(?<![^\W_]_*)(?:{'|'.join(map(regex.escape, listed))})(?!\w*[^\W_]|-\w)"
