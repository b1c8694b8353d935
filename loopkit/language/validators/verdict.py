"""The `verdict` key: reads a verdict out of text, beside `judge` or `command`."""

from collections.abc import Iterator
from typing import Literal

from loopkit.language.noun import Noun

Take = Literal["last", "first", "strictest", "unique"]
GROUPS = ("message", "severity", "file", "line", "code", "key")
"""The groups of a pattern for findings; `message` has to be there."""


class VerdictCounts(Noun):
    """The numbers in a text that bound its verdict: with fewer met than checked, it is no pass."""

    met: str
    """A pattern whose first group is the number of criteria that are met."""
    checked: str
    """A pattern whose first group is the number of criteria that were checked."""


class VerdictReading(Noun):
    """How a verdict and findings are read out of what a reviewer writes.

    Patterns are regular expressions, or names under `patterns:`.
    """

    pattern: str | None = None
    """Its group `verdict`, or its first one, is the word; default reads a line of its own."""
    words: dict[str, Literal["pass", "warn", "fail"]] = {}
    """What the words mean, capitals aside; default is PASS, WARN and FAIL."""
    findings: str | None = None
    """The line of a finding, with the group `message`; default reads `- [FAIL] text`. A group
    `key` is what the finding is called in every round."""
    take: Take = "last"
    """Which of several verdicts counts; with `unique` all have to say the same."""
    counts: VerdictCounts | None = None
    """Numbers that have to allow a pass."""

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
