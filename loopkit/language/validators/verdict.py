"""The `verdict` key: reads a verdict out of text, beside `judge` or `command`."""

from collections.abc import Iterator
from typing import Literal

from loopkit.language.noun import Noun

Take = Literal["last", "first", "strictest", "unique"]
GROUPS = ("message", "severity", "file", "line", "code", "key")
"""The groups of a pattern for findings; `message` has to be there."""


class VerdictCounts(Noun):
    """Numbers in a text that limit its verdict: with fewer criteria met than checked it is not a
    pass."""

    met: str
    """A pattern whose first group is the number of criteria met."""
    checked: str
    """A pattern whose first group is the number of criteria checked."""


class VerdictReading(Noun):
    """How to read a verdict and findings from a reviewer's text.

    Patterns are regular expressions, or names under `patterns:`.
    """

    pattern: str | None = None
    """The pattern of the verdict: its group `verdict`, or else its first group, captures the word.
    Default: a line such as `**Verdict:** FAIL`."""
    words: dict[str, Literal["pass", "warn", "fail"]] = {}
    """The meaning of each word, ignoring case. Default: PASS, WARN and FAIL."""
    findings: str | None = None
    """The pattern of a finding's line, with the group `message`. A group `key` captures a name that
    the finding keeps in every round. Default: `- [FAIL] text`."""
    take: Take = "last"
    """Which of several verdicts counts; with `unique` all must agree."""
    counts: VerdictCounts | None = None
    """Numbers in the text that limit the verdict."""

    @property
    def patterns(self) -> Iterator[tuple[tuple[str, ...], str]]:
        """Its patterns, each with its place."""
        if self.pattern is not None:
            yield ("pattern",), self.pattern
        if self.findings is not None:
            yield ("findings",), self.findings
        if self.counts is not None:
            yield ("counts", "met"), self.counts.met
            yield ("counts", "checked"), self.counts.checked

    @property
    def given_codes(self) -> frozenset[str] | None:
        """The codes of findings; none where a group of a pattern may give any."""
        return frozenset() if self.findings is None else None
