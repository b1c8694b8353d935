"""The base of all rules: the keys that every rule may have."""

from __future__ import annotations

from loopkit.language.noun import Id, Noun, Text


class RuleBase(Noun):
    """What every rule may say."""

    severity: Id | None = None
    """How bad its findings are, at most; without it they block."""
    code: str = ""
    """A name for the finding, for `"CODE" in codes`."""
    guard: str | None = None
    """Where it is false, the rule does not apply."""


class FixedRule(RuleBase):
    """A rule that judges without a model."""

    @property
    def grades(self) -> bool:
        """Whether it tells how bad each finding is, instead of all having the rule's severity."""
        return False

    message: Text | None = None
    """A template that sees `item`, `index`, `value`, `artifact`; each rule has a default."""
