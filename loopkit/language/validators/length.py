"""The `min_chars` and `max_chars` rules: the length of a text."""

from collections.abc import Iterator, Mapping

from pydantic import Field

from loopkit.language.validators.rule import Breach, Example, FixedRule, Matching
from loopkit.text import plural


class MinCharsRule(FixedRule):
    """The text, outer white space removed, has at least so many characters."""

    min_chars: int = Field(ge=0)
    """How many characters, outer white space removed."""

    kind = "min_chars"
    sees_only_artifact = True
    example = Example({"min_chars": 20}, passes="Long enough, at last.", fails="No.")

    @property
    def most_findings(self) -> float:
        return 1

    @property
    def least_chars(self) -> int:
        return self.min_chars

    def wish(self, patterns: Mapping[str, str]) -> str:
        return f"at least {plural(self.min_chars, 'character')}"


class MaxCharsRule(FixedRule):
    """The text, outer white space removed, has at most so many characters."""

    max_chars: int = Field(ge=0)
    """How many characters, outer white space removed."""

    kind = "max_chars"
    sees_only_artifact = True
    example = Example({"max_chars": 20}, passes="Yes.", fails="Far too long, alas, by a lot.")

    @property
    def most_findings(self) -> float:
        return 1

    def breaches(self, matching: Matching) -> Iterator[Breach]:
        yield Breach(least_chars=self.max_chars + 1)

    def wish(self, patterns: Mapping[str, str]) -> str:
        return f"at most {plural(self.max_chars, 'character')}"
