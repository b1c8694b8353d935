"""The `min_chars` and `max_chars` rules: the length of a text."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field

from loopkit.language.validators.rule import Example, FixedRule
from loopkit.text import plural


class MinCharsRule(FixedRule):
    """The text, outer white space removed, has at least so many characters."""

    min_chars: int = Field(ge=0)
    """How many characters, outer white space removed."""

    kind = "min_chars"
    sees_only_artifact = True
    example = Example({"min_chars": 5}, passes="Long enough.", fails="No.")

    @property
    def most_findings(self) -> float:
        return 1

    def wish(self, patterns: Mapping[str, str]) -> str:
        return f"at least {plural(self.min_chars, 'character')}"


class MaxCharsRule(FixedRule):
    """The text, outer white space removed, has at most so many characters."""

    max_chars: int = Field(ge=0)
    """How many characters, outer white space removed."""

    kind = "max_chars"
    sees_only_artifact = True
    example = Example({"max_chars": 5}, passes="Yes.", fails="Far too long.")

    @property
    def most_findings(self) -> float:
        return 1

    def wish(self, patterns: Mapping[str, str]) -> str:
        return f"at most {plural(self.max_chars, 'character')}"
