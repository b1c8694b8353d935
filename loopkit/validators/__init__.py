"""Validators: the rules that judge by themselves, and what a judge is asked and answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from types import MappingProxyType

from loopkit.engine.findings import Answer
from loopkit.language import (
    AcyclicRule,
    CommandRule,
    JudgeRule,
    LookupRule,
    MatchesRule,
    MaxCharsRule,
    MinCharsRule,
    NotMatchesRule,
    PythonRule,
    RequireRule,
    Rule,
    SchemaRule,
    SectionRule,
)
from loopkit.language.guard import GuardError, compile_guard
from loopkit.language.guard import parse as parse_guard
from loopkit.language.template import TemplateError
from loopkit.language.validators import RULE_KINDS
from loopkit.text.patterns import PatternError, PatternTimeout
from loopkit.validators.acyclic import check_acyclic
from loopkit.validators.answer import (
    answer_with,
    answer_without,
    combined,
    findings_of,
    not_applicable,
)
from loopkit.validators.command import check_command
from loopkit.validators.fault import CannotJudge, Found, RuleCheck
from loopkit.validators.length import check_max_chars, check_min_chars
from loopkit.validators.lookup import check_lookup
from loopkit.validators.pattern import check_matches, check_not_matches
from loopkit.validators.plugin import check_python
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
        LookupRule: check_lookup,
        AcyclicRule: check_acyclic,
        CommandRule: check_command,
        PythonRule: check_python,
    }
)
"""Each rule noun with its check."""

__all__ = ["DETERMINISTIC", "CommandRunner", "Setting", "Subject", "judge_deterministic", "placed"]


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
        await _judge_by(rule, place, name, subject, setting) for place, rule in placed(rules)
    ]
    if not answers:
        return not_applicable(name, "no rule of it judges without a model")
    return combined(name, answers)


def placed(rules: Sequence[Rule]) -> list[tuple[str, Rule]]:
    """The rules of a validator that need no model, each with the name of its place."""
    numbered = enumerate(rules)
    return [(f"{_kind(r)}[{i}]", r) for i, r in numbered if not isinstance(r, JudgeRule)]


async def _judge_by(
    rule: Rule, place: str, validator: str, subject: Subject, setting: Setting
) -> Answer:
    setting = replace(setting, validator=validator, place=place)
    try:
        if not _applies(rule, setting.facts):
            return not_applicable(validator, f"the guard `{rule.guard}` of {place} is false")
        found = await DETERMINISTIC[type(rule)](rule, subject, setting)
        faults, reason = (found.faults, found.reason) if isinstance(found, Found) else (found, "")
        names = subject.names(setting.names)
        findings = findings_of(validator, rule, place, faults, names, setting.severities)
        return answer_with(validator, findings).replace(reason=reason)
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
