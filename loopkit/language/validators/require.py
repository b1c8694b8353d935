"""The `require` rule: a condition on data."""

from collections.abc import Iterator, Mapping
from math import inf

from loopkit.language.noun import Texts, Written
from loopkit.language.validators.rule import Example, FixedRule


class RequireRule(FixedRule):
    """Checks that a condition in the guard language is true for the data."""

    require: str
    """The condition; its names are fields of the data or of the item."""
    each: str | None = None
    """A path such as `nodes[]`; the condition is tested on every item."""
    sees: Texts = ()
    """Other artifacts whose data the condition can read, such as `plan`."""

    kind = "require"
    example = Example({"require": "cups > 1"}, passes='{"cups": 2}', fails='{"cups": 1}')

    @property
    def most_findings(self) -> float:
        return 1 if self.each is None else inf

    @property
    def conditions(self) -> Written:
        yield ("require",), self.require

    @property
    def paths(self) -> Written:
        if self.each is not None:
            yield ("each",), self.each

    @property
    def mentions(self) -> Iterator[str]:
        yield from super().mentions
        yield from self.sees

    def wish(self, patterns: Mapping[str, str]) -> str:
        return self.require + (f", for each of `{self.each}`" if self.each else "")
