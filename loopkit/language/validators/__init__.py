"""Validators: lists of rules, or one judge. A rule is known by the key it carries."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Discriminator, Field, Tag

from loopkit.language.noun import Id
from loopkit.language.validators.command import CommandError, CommandRule
from loopkit.language.validators.data import (
    Acyclic,
    AcyclicRule,
    DataFile,
    Lookup,
    LookupRule,
    RequireRule,
    SchemaRule,
)
from loopkit.language.validators.judge import JudgeRule, ReportMap, Score
from loopkit.language.validators.plugin import PythonRule
from loopkit.language.validators.rule import FixedRule, RuleBase
from loopkit.language.validators.text import (
    Count,
    MatchesRule,
    MaxCharsRule,
    MinCharsRule,
    NotMatchesRule,
    SectionRule,
)
from loopkit.language.validators.verdict import VerdictCounts, VerdictReading

RULE_KINDS: dict[str, type[RuleBase]] = {
    "matches": MatchesRule,
    "not_matches": NotMatchesRule,
    "section": SectionRule,
    "min_chars": MinCharsRule,
    "max_chars": MaxCharsRule,
    "schema": SchemaRule,
    "require": RequireRule,
    "lookup": LookupRule,
    "acyclic": AcyclicRule,
    "command": CommandRule,
    "judge": JudgeRule,
    "python": PythonRule,
}


def rule_kind(value: object) -> str | None:
    """The tag of the rule that a mapping or a rule object is."""
    if isinstance(value, RuleBase):
        return next(f"<{kind}>" for kind, noun in RULE_KINDS.items() if isinstance(value, noun))
    if isinstance(value, dict):
        return next((f"<{kind}>" for kind in RULE_KINDS if kind in value), None)
    return None


Rule = Annotated[
    Annotated[MatchesRule, Tag("<matches>")]
    | Annotated[NotMatchesRule, Tag("<not_matches>")]
    | Annotated[SectionRule, Tag("<section>")]
    | Annotated[MinCharsRule, Tag("<min_chars>")]
    | Annotated[MaxCharsRule, Tag("<max_chars>")]
    | Annotated[SchemaRule, Tag("<schema>")]
    | Annotated[RequireRule, Tag("<require>")]
    | Annotated[LookupRule, Tag("<lookup>")]
    | Annotated[AcyclicRule, Tag("<acyclic>")]
    | Annotated[CommandRule, Tag("<command>")]
    | Annotated[JudgeRule, Tag("<judge>")]
    | Annotated[PythonRule, Tag("<python>")],
    Discriminator(
        rule_kind,
        custom_error_type="unknown-rule",
        custom_error_message="this is no rule",
    ),
]


def _rules(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


Rules = Annotated[tuple[Rule, ...], Field(min_length=1), BeforeValidator(_rules)]
Validator = Annotated[
    Annotated[Rules, Tag("<rules>")] | Annotated[Rule, Tag("<rule>")],
    Discriminator(lambda value: "<rules>" if isinstance(value, (list, tuple)) else "<rule>"),
]
"""A list of rules, or one rule by itself."""
ByItem = Annotated[
    Annotated[Id, Tag("<name>")] | Annotated[Rule, Tag("<rule>")],
    Discriminator(lambda value: "<name>" if isinstance(value, str) else "<rule>"),
]
"""The name of a validator, or a rule inline."""


def rules_of(validator: Rule | tuple[Rule, ...]) -> tuple[Rule, ...]:
    """The rules of a validator, whichever way it is written."""
    return validator if isinstance(validator, tuple) else (validator,)


__all__ = [
    "RULE_KINDS",
    "Acyclic",
    "AcyclicRule",
    "ByItem",
    "CommandError",
    "CommandRule",
    "Count",
    "DataFile",
    "FixedRule",
    "JudgeRule",
    "Lookup",
    "LookupRule",
    "MatchesRule",
    "MaxCharsRule",
    "MinCharsRule",
    "NotMatchesRule",
    "PythonRule",
    "ReportMap",
    "RequireRule",
    "Rule",
    "RuleBase",
    "Rules",
    "SchemaRule",
    "Score",
    "SectionRule",
    "Validator",
    "VerdictCounts",
    "VerdictReading",
    "rule_kind",
    "rules_of",
]
