"""Rules for text: length, patterns, sections."""

from __future__ import annotations

from pydantic import Field

from loopkit.language.noun import Noun
from loopkit.language.section import Section
from loopkit.language.validators.rule import FixedRule


class Count(Noun):
    """How often a pattern has to match."""

    min: int = Field(1, ge=0)
    """At least so often."""
    max: int | None = Field(None, ge=0)
    """At most so often."""


class MatchesRule(FixedRule):
    """The pattern is found in the text."""

    matches: str
    """A regular expression, or a name under `patterns:`; `^` and `$` match at every line."""
    outside_code: bool = False
    """Fenced and indented code does not count."""
    count: Count = Count()
    """How often it has to match."""


class NotMatchesRule(FixedRule):
    """The pattern is not found; each match is a finding with its line."""

    not_matches: str
    """A regular expression, or a name under `patterns:`."""
    outside_code: bool = False
    """Fenced and indented code does not count."""


class SectionRule(Section, FixedRule):
    """A heading or a bold label of this name stands in the Markdown, with text under it."""


class MinCharsRule(FixedRule):
    """The text, outer white space removed, has at least so many characters."""

    min_chars: int = Field(ge=0)
    """How many characters, outer white space removed."""


class MaxCharsRule(FixedRule):
    """The text, outer white space removed, has at most so many characters."""

    max_chars: int = Field(ge=0)
    """How many characters, outer white space removed."""
