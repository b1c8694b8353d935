"""The `min_chars` and `max_chars` rules: the length of a text."""

from collections.abc import Mapping

from pydantic import Field

from loopkit.language.validators.rule import Example, FixedRule
from loopkit.text import plural


class MinCharsRule(FixedRule):
    """Checks that the text, without surrounding white space, is not shorter than a minimum."""

    min_chars: int = Field(ge=0)
    """The minimum number of characters, without surrounding white space."""

    kind = "min_chars"
    sees_only_artifact = True
    example = Example({"min_chars": 20}, passes="Long enough, at last.", fails="No.")

    @property
    def most_findings(self) -> float:
        return 1

    def wish(self, patterns: Mapping[str, str]) -> str:
        return f"at least {plural(self.min_chars, 'character')}"


class MaxCharsRule(FixedRule):
    """Checks that the text, without surrounding white space, is not longer than a maximum."""

    max_chars: int = Field(ge=0)
    """The maximum number of characters, without surrounding white space."""

    kind = "max_chars"
    sees_only_artifact = True
    example = Example({"max_chars": 20}, passes="Yes.", fails="Far too long, alas, by a lot.")

    @property
    def most_findings(self) -> float:
        return 1

    def wish(self, patterns: Mapping[str, str]) -> str:
        return f"at most {plural(self.max_chars, 'character')}"
