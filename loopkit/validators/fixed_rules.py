"""Judging without a model: the check of each rule, and the answer of a validator."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import lru_cache
from importlib import import_module
from typing import Any

from loopkit.engine.findings import Answer
from loopkit.language import FixedRule
from loopkit.language.guard import GuardError, compile_guard
from loopkit.language.guard import parse as parse_guard
from loopkit.language.template import TemplateError
from loopkit.machine.asked import Placed
from loopkit.text.patterns import PatternError, PatternTimeout
from loopkit.validators.answer import (
    RuleTexts,
    answer_with,
    answer_without,
    combine,
    findings_of,
    not_applicable,
)
from loopkit.validators.fault import CannotJudge, Fault, Found
from loopkit.validators.judged_artifact import JudgedArtifact
from loopkit.validators.setting import Setting

# The rule is Any, because each check takes the noun that the table pairs it with.
RuleCheck = Callable[[Any, JudgedArtifact, Setting], Awaitable[Sequence[Fault] | Found]]


async def judge_placed(
    name: str, rules: Placed, subject: JudgedArtifact, setting: Setting
) -> Answer:
    """The answer of the validator `name`, from its rules with their places.

    All of them run, in order, and the findings of all are collected; judges among them are left
    to the caller. The verdict is `fail` with a blocking finding, else `error` where a rule could
    not judge (with class and reason), `warn` with other findings, `not_applicable` where the
    guard of every rule is false, else `pass`. Never raises for what a machine file, an artifact
    or a command can contain.
    """
    answers: list[Answer] = []
    setting.validator = name
    for place, rule in rules:
        setting.place = place
        try:
            if rule.guard is None or _applies(rule.guard, setting.facts):
                found = await check_of(type(rule))(rule, subject, setting)
                answer = _answer_of(found, rule, subject, setting)
            else:
                answer = not_applicable(name, f"the guard `{rule.guard}` of {place} is false")
        except CannotJudge as error:
            answer = answer_without(name, error, setting.now())
        except (GuardError, TemplateError, PatternError, PatternTimeout) as error:
            answer = answer_without(name, CannotJudge(f"{place}: {error}"))
        except RecursionError:
            reason = f"{place}: the data, or the schema, is nested too deep to be judged"
            answer = answer_without(name, CannotJudge(reason))
        answers.append(answer)
    if not answers:
        return not_applicable(name, "no rule of it judges without a model")
    return answers[0] if len(answers) == 1 else combine(name, answers)


@lru_cache
def check_of(noun: type[FixedRule]) -> RuleCheck:
    """The check of a kind of rule: `check_KIND` in the module here that is named like the noun's.

    The module is loaded when a rule of the kind first judges.
    """
    module = import_module(f"loopkit.validators.{noun.__module__.rpartition('.')[2]}")
    check: RuleCheck = getattr(module, f"check_{noun.kind}")
    return check


def _answer_of(
    found: Sequence[Fault] | Found, rule: FixedRule, subject: JudgedArtifact, setting: Setting
) -> Answer:
    """The answer of one rule, of what its check found; raises TemplateError and CannotJudge."""
    validator = setting.validator
    faults, reason = (found.faults, found.reason) if isinstance(found, Found) else (found, "")
    if not faults:
        return Answer(validator=validator, verdict="pass", reason=reason)
    texts = RuleTexts(subject, setting.names, setting.severities)
    return answer_with(
        validator, findings_of(validator, rule, setting.place, faults, texts), reason
    )


def _applies(guard: str, facts: Mapping[str, object]) -> bool:
    names, holds = _compile(guard)
    if unknown := sorted(names - facts.keys()):
        raise CannotJudge(f"the guard `{guard}` names `{unknown[0]}`, which is not known here")
    return holds(facts)


@lru_cache(maxsize=512)
def _compile(text: str) -> tuple[frozenset[str], Callable[[Mapping[str, object]], bool]]:
    guard = parse_guard(text)
    return guard.names, compile_guard(guard)
