"""Validators: the rules that judge by themselves, and what a judge is asked and answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType

from loopkit.definition import (
    CommandRule,
    JudgeRule,
    MatchesRule,
    MaxCharsRule,
    MinCharsRule,
    NotMatchesRule,
    RequireRule,
    Rule,
    SchemaRule,
    SectionRule,
)
from loopkit.definition.validators import RULE_KINDS
from loopkit.findings import Answer
from loopkit.guard import GuardError, compile_guard
from loopkit.guard import parse as parse_guard
from loopkit.patterns import PatternError, PatternTimeout
from loopkit.template import TemplateError
from loopkit.validators.answer import (
    answer_with,
    answer_without,
    combined,
    findings_of,
    not_applicable,
)
from loopkit.validators.command import check_command
from loopkit.validators.fault import CannotJudge, RuleCheck
from loopkit.validators.length import check_max_chars, check_min_chars
from loopkit.validators.pattern import check_matches, check_not_matches
from loopkit.validators.require import check_require
from loopkit.validators.schema import check_schema
from loopkit.validators.section import check_section
from loopkit.validators.subject import CommandRunner, Setting, Subject

DETERMINISTIC: Mapping[type, RuleCheck] = MappingProxyType(
    {
        MatchesRule: check_matches,
        NotMatchesRule: check_not_matches,
        SectionRule: check_section,
        MinCharsRule: check_min_chars,
        MaxCharsRule: check_max_chars,
        SchemaRule: check_schema,
        RequireRule: check_require,
        CommandRule: check_command,
    }
)
"""Each rule noun with its check."""

__all__ = ["DETERMINISTIC", "CommandRunner", "Setting", "Subject", "judge_deterministic"]


async def judge_deterministic(
    name: str, rules: Sequence[Rule], subject: Subject, setting: Setting
) -> Answer:
    """The answer of the validator `name`, from those of its rules that need no model.

    All of them run, in order, and the findings of all are collected; judges among them are left
    to the caller. The verdict is `fail` with a blocking finding, else `error` where a rule could
    not judge (with class and reason), `warn` with other findings, `not_applicable` where the
    guard of every rule is false, else `pass`. Never raises for what a machine file, an artifact
    or a command can contain.
    """
    answers = [
        await _judge_by(rule, f"{_kind(rule)}[{index}]", name, subject, setting)
        for index, rule in enumerate(rules)
        if not isinstance(rule, JudgeRule)
    ]
    if not answers:
        return not_applicable(name, "no rule of it judges without a model")
    return combined(name, answers)


async def _judge_by(
    rule: Rule, place: str, validator: str, subject: Subject, setting: Setting
) -> Answer:
    try:
        if not _applies(rule, setting.facts):
            return not_applicable(validator, f"the guard `{rule.guard}` of {place} is false")
        faults = await DETERMINISTIC[type(rule)](rule, subject, setting)
        names = subject.names(setting.names)
        return answer_with(validator, findings_of(validator, rule, place, faults, names))
    except CannotJudge as error:
        return answer_without(validator, error)
    except (GuardError, TemplateError, PatternError, PatternTimeout) as error:
        return answer_without(validator, CannotJudge(f"{place}: {error}"))
    except RecursionError:
        reason = f"{place}: the data, or the schema, is nested too deep to be judged"
        return answer_without(validator, CannotJudge(reason))


def _applies(rule: Rule, facts: Mapping[str, object]) -> bool:
    if rule.guard is None:
        return True
    names, holds = _compiled(rule.guard)
    if unknown := sorted(names - facts.keys()):
        raise CannotJudge(f"the guard `{rule.guard}` names `{unknown[0]}`, which is not known here")
    return holds(facts)


@lru_cache(maxsize=512)
def _compiled(text: str) -> tuple[frozenset[str], Callable[[Mapping[str, object]], bool]]:
    guard = parse_guard(text)
    return guard.names, compile_guard(guard)


def _kind(rule: Rule) -> str:
    return next(kind for kind, noun in RULE_KINDS.items() if type(rule) is noun)
