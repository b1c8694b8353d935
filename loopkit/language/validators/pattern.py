"""The `matches` and `not_matches` rules: a pattern in a text."""

from collections.abc import Mapping

from pydantic import Field

from loopkit.language.noun import Noun, Written
from loopkit.language.validators.rule import Example, FixedRule


class Count(Noun):
    """The number of times that a pattern must match."""

    min: int = Field(1, ge=0)
    """The minimum number of matches."""
    max: int | None = Field(None, ge=0)
    """The maximum number of matches."""


class MatchesRule(FixedRule):
    """Checks that a pattern is found in the text."""

    matches: str
    """A regular expression, or a name under `patterns:`. `^` and `$` match at every line."""
    outside_code: bool = False
    """Ignore fenced and indented code."""
    count: Count = Count()
    """How many times the pattern must match."""

    kind = "matches"
    sees_only_artifact = True
    example = Example({"matches": "(?i)tea"}, passes="Some tea.", fails="Some water.")

    @property
    def most_findings(self) -> float:
        return 1

    @property
    def patterns(self) -> Written:
        yield ("matches",), self.matches

    def wish(self, patterns: Mapping[str, str]) -> str:
        most = "" if self.count.max is None else f", at most {self.count.max},"
        pattern = patterns.get(self.matches, self.matches)
        return f"at least {self.count.min}{most} of `{pattern}`{_outside(self.outside_code)}"


class NotMatchesRule(FixedRule):
    """Checks that a pattern is not found. Each match is a finding with its line."""

    not_matches: str
    """A regular expression, or a name under `patterns:`."""
    outside_code: bool = False
    """Ignore fenced and indented code."""

    kind = "not_matches"
    sees_only_artifact = True
    example = Example({"not_matches": "perhaps"}, passes="Boil it.", fails="Boil it, perhaps.")

    @property
    def patterns(self) -> Written:
        yield ("not_matches",), self.not_matches

    def wish(self, patterns: Mapping[str, str]) -> str:
        pattern = patterns.get(self.not_matches, self.not_matches)
        return f"nothing of `{pattern}`{_outside(self.outside_code)}"


def _outside(is_outside: bool) -> str:
    return " outside of code" if is_outside else ""
