"""Validators: lists of rules, or one judge. A rule is known by the key it carries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Discriminator, Field, SerializeAsAny, Tag

from loopkit.language.kinds import one_of
from loopkit.language.noun import FROM_LIST, Id
from loopkit.language.validators.acyclic import AcyclicRule
from loopkit.language.validators.command import CommandRule
from loopkit.language.validators.judge import JudgeRule
from loopkit.language.validators.length import MaxCharsRule, MinCharsRule
from loopkit.language.validators.lookup import LookupRule
from loopkit.language.validators.pattern import MatchesRule, NotMatchesRule
from loopkit.language.validators.plugin import PythonRule
from loopkit.language.validators.require import RequireRule
from loopkit.language.validators.rule import FixedRule, RuleBase
from loopkit.language.validators.schema import SchemaRule
from loopkit.language.validators.section import SectionRule

RULE_NOUNS: tuple[type[RuleBase], ...] = (
    MatchesRule,
    NotMatchesRule,
    SectionRule,
    MinCharsRule,
    MaxCharsRule,
    SchemaRule,
    RequireRule,
    LookupRule,
    AcyclicRule,
    CommandRule,
    JudgeRule,
    PythonRule,
)
"""Every kind of rule: the one table of them, from which all else that knows them is made."""
RULE_KINDS = {noun.kind: noun for noun in RULE_NOUNS}


if TYPE_CHECKING:
    Rule = FixedRule | JudgeRule
else:
    Rule = one_of(RULE_NOUNS, unknown=("unknown-rule", "this is not a rule"))


Rules = Annotated[tuple[Rule, ...], Field(min_length=1), FROM_LIST]
Validator = SerializeAsAny[
    Annotated[
        Annotated[Rules, Tag("<rules>")] | Annotated[Rule, Tag("<rule>")],
        Discriminator(lambda value: "<rules>" if isinstance(value, (list, tuple)) else "<rule>"),
    ]
]
"""A list of rules, or one rule by itself."""
ByItem = SerializeAsAny[
    Annotated[
        Annotated[Id, Tag("<name>")] | Annotated[Rule, Tag("<rule>")],
        Discriminator(lambda value: "<name>" if isinstance(value, str) else "<rule>"),
    ]
]
"""The name of a validator, or a rule inline."""


def rules_of(validator: Rule | tuple[Rule, ...]) -> tuple[Rule, ...]:
    """The rules of a validator, whichever way it is written."""
    return validator if isinstance(validator, tuple) else (validator,)
