"""Judging without a model: the answer of a validator, and the checks of small rules."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from loopkit import plugins
from loopkit.engine.findings import Answer, Finding
from loopkit.language.datatypes.datatype import NotationError, conform, violation
from loopkit.language.datatypes.notation import parse_type
from loopkit.language.guard.evaluate import compile_guard, select
from loopkit.language.guard.grammar import GuardError
from loopkit.language.guard.grammar import parse as parse_guard
from loopkit.language.guard.kleene import Known, parse_requirement
from loopkit.language.json_schema.equality import NotJudged
from loopkit.language.template.errors import TemplateError
from loopkit.language.template.rendering import parse
from loopkit.language.validators import (
    ContainsRule,
    LengthRule,
    MatchesRule,
    NotContainsRule,
    NotMatchesRule,
    PythonRule,
    RequireRule,
    SchemaRule,
    SectionRule,
)
from loopkit.machine.program import Placed
from loopkit.machine.scope import over
from loopkit.outside.processes import (
    CommandNotStarted,
    CommandResult,
    CommandTimeout,
    run_command,
    worker_command,
    worker_environment,
)
from loopkit.outside.redaction import redact_data
from loopkit.outside.workspace import UnusableWorkspace, prepare
from loopkit.plugins import serving
from loopkit.text import one_line, plural, shorten
from loopkit.text.markdown import has_section, section, title, title_has_text, without_code
from loopkit.text.patterns import PatternError, PatternTimeout, count_of, occurrences
from loopkit.validators.command import check_command, output_clause
from loopkit.validators.data import JudgedArtifact, NoData, data_of
from loopkit.validators.fault import (
    MAX_FAULTS,
    CannotJudge,
    Found,
    NotStarted,
    amount,
    answer_with,
    complete,
    defect,
    further_fields,
    sees_data,
    sees_values,
    unreadable,
)
from loopkit.validators.item_rules import check_acyclic, check_lookup
from loopkit.validators.setting import Setting

# The rule is Any, because each check takes the noun that the table pairs it with.
RuleCheck = Callable[[Any, JudgedArtifact, Setting], Awaitable[Sequence[Found]]]


async def judge_placed(
    name: str, rules: Placed, subject: JudgedArtifact, setting: Setting
) -> Answer:
    """The answer of the validator `name`, from its rules with their places; judges are left out.

    All run, in order, and the findings of all are collected. Where the guard of every rule is false
    it is `not_applicable`. Never raises for what a machine file, an artifact or a command can
    contain.
    """
    setting.validator = name
    findings: list[Finding] = []
    remarks: list[str] = []
    skipped: list[str] = []
    partial: list[str] = []
    errors: list[CannotJudge] = []
    for place, rule in rules:
        setting.place, setting.remark = place, ""
        try:
            if rule.guard is not None and not _applies(rule.guard, setting.facts):
                skipped.append(f"the guard `{rule.guard}` of {place} is false")
                partial.append(rule.code or place)
                continue
            with serving(f"{setting.call}:{name}:{place}"):
                found = await CHECKS[rule.kind](rule, subject, setting)
            if found:
                findings += complete(rule, found, subject, setting)
                if len(found) >= MAX_FAULTS or any(one.is_unreadable for one in found):
                    partial.append(rule.code or place)
            remarks += filter(None, [setting.remark])
        except CannotJudge as error:
            errors.append(error)
        except (GuardError, TemplateError, PatternError, PatternTimeout) as error:
            errors.append(CannotJudge(f"{place}: {error}"))
        except RecursionError:
            reason = f"{place}: the data, or the schema, is nested too deep to be judged"
            errors.append(CannotJudge(reason))
    if len(skipped) == len(rules):
        reason = "; ".join(skipped) or "no rule of it judges without a model"
        return Answer(validator=name, verdict="not_applicable", reason=reason)
    judged = answer_with(name, findings, "; ".join(remarks)).replace(partial=tuple(partial))
    return _answer_with_errors(judged, errors, setting.now) if errors else judged


def _answer_with_errors(
    judged: Answer, errors: list[CannotJudge], now: Callable[[], float]
) -> Answer:
    """What the other rules found, and why these came to no verdict.

    What one rule found has to be corrected whatever another would have said; otherwise it is an
    `error`. Of several errors, a fatal one counts.
    """
    errors.sort(key=lambda error: error.error_class != "fatal")
    reasons = [error.reason for error in errors]
    if judged.verdict != "fail":
        judged = judged.replace(verdict="error")
    elif judged.reason:
        reasons.insert(0, judged.reason)
    waits = [one.retry_after_s for one in errors if one.retry_after_s is not None]
    return judged.replace(
        error_class=errors[0].error_class,
        not_started=any(isinstance(error, NotStarted) for error in errors),
        reason="; ".join(reasons),
        resume_at=now() + max(waits) if waits else None,
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


async def check_length(rule: LengthRule, subject: JudgedArtifact, _setting: Setting) -> list[Found]:
    """Whether it has enough or too many; a word is what has a letter or a digit between blanks."""
    text = subject.content.strip()
    words = rule.unit == "word"
    number = sum(any(map(str.isalnum, part)) for part in text.split()) if words else len(text)
    has = f"the text has {plural(number, rule.unit, ',')}"
    limit = getattr(rule, rule.kind)
    if rule.kind.startswith("min") and number < limit:
        return [defect(f"{has}, at least {amount(limit)} needed", "too short", value=number)]
    if rule.kind.startswith("max") and number > limit:
        return [defect(f"{has}, at most {amount(limit)} allowed", "too long", value=number)]
    return []


async def check_contains(
    rule: ContainsRule, subject: JudgedArtifact, setting: Setting
) -> list[Found]:
    text, found = _looked_for(rule, rule.contains, subject, setting)
    message = f"the text does not contain `{shorten(text, 80)}`"
    return [] if text == "" or next(found, None) else [defect(message, text, value=text)]


async def check_not_contains(
    rule: NotContainsRule, subject: JudgedArtifact, setting: Setting
) -> list[Found]:
    text, found = _looked_for(rule, rule.not_contains, subject, setting)
    message = f"`{shorten(text, 80)}` is not allowed"
    return [
        defect(message, text, line=line, value=text, index=index)
        for index, line in enumerate(islice(found, MAX_FAULTS))
    ]


def _looked_for(
    rule: ContainsRule | NotContainsRule, template: str, subject: JudgedArtifact, setting: Setting
) -> tuple[str, Iterator[int]]:
    """The text of a template, and the lines where it is found; an empty one is found nowhere."""
    text = parse(template).render(setting.names).strip()
    as_compared = str.casefold if rule.ignore_case else str
    wanted, content = as_compared(text), as_compared(subject.content)

    def lines() -> Iterator[int]:
        before, line = 0, 1
        while wanted and (at := content.find(wanted, before)) >= 0:
            line += content.count("\n", before, at)
            yield line
            line += wanted.count("\n")
            before = at + len(wanted)

    return text, lines()


async def check_matches(
    rule: MatchesRule, subject: JudgedArtifact, setting: Setting
) -> list[Found]:
    text = without_code(subject.content) if rule.outside_code else subject.content
    pattern = rule.matches
    least = rule.count.min
    most = rule.count.max
    # Without an upper limit, counting can stop at the lower one.
    number = count_of(pattern, text, setting.patterns, most=least if most is None else None)
    if number < least:
        message = _too_few_message(rule, number, subject, setting)
        return [defect(message, f"too few {pattern}", value=number)]
    if most is not None and number > most:
        message = (
            f"`{pattern}` matches {plural(number, 'time', ',')}, at most {amount(most)} allowed"
        )
        return [defect(message, f"too many {pattern}", value=number)]
    return []


async def check_not_matches(
    rule: NotMatchesRule, subject: JudgedArtifact, setting: Setting
) -> list[Found]:
    text = without_code(subject.content) if rule.outside_code else subject.content
    found: list[Found] = []
    line, counted_to = 1, 0
    matches = islice(occurrences(rule.not_matches, text, setting.patterns), MAX_FAULTS)
    for index, match in enumerate(matches):
        line += text.count("\n", counted_to, match.start())
        counted_to = match.start()
        excerpt = shorten(" ".join(match.group().split()), 80)
        message = f"`{excerpt}` is not allowed (nothing may match `{rule.not_matches}`)"
        found.append(defect(message, excerpt, line=line, value=match.group(), index=index))
    return found


def _too_few_message(
    rule: MatchesRule, number: int, subject: JudgedArtifact, setting: Setting
) -> str:
    where = "text outside code" if rule.outside_code else "text"
    if number or rule.count.min > 1:
        times = plural(number, "time", ",")
        least = amount(rule.count.min)
        return f"`{rule.matches}` matches {times} in the {where}, at least {least} needed"
    message = f"nothing in the {where} matches `{rule.matches}`"
    inside = rule.outside_code and count_of(rule.matches, subject.content, setting.patterns, most=1)
    return f"{message}; what matches stands inside code" if inside else message


WORKER = worker_command("loopkit.outside.plugin_worker")
MAX_REASON = 1_000


class _Answer(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    findings: list[plugins.Finding] = []
    error: str = ""


async def check_python(rule: PythonRule, subject: JudgedArtifact, setting: Setting) -> list[Found]:
    """What the plug-in finds, which has a process of its own.

    Anything else is not a verdict: raises CannotJudge, transient after a timeout.
    """
    folder, names = setting.folder, setting.names
    request = {
        "python": rule.python,
        "folder": rule.folder,
        "value": subject.data if subject.is_data else subject.content,
        "context": {
            "artifact": subject.artifact,
            "attempt": names.get("attempt", 1),
            "input": names.get("input", {}),
            "arguments": rule.with_,
            "seen": sees_values(rule, names),
        },
    }
    try:
        result = await run_command(
            WORKER,
            cwd=folder if folder is None or folder.is_dir() else prepare(folder),
            env=worker_environment(rule.env),
            stdin=json.dumps(request),
            timeout_s=rule.timeout,
        )
    except (CommandNotStarted, UnusableWorkspace) as error:
        raise CannotJudge(_failure_text(rule, str(error), setting)) from error
    except CommandTimeout as error:
        reason = f"it took longer than {rule.timeout:g} s; give it more `timeout`, or less to do"
        raise CannotJudge(
            _failure_text(rule, reason, setting, error.stderr), "transient"
        ) from error
    told = _read_answer(rule, result, setting).findings
    return [_found_by_plugin(rule, one, setting) for one in told]


def _read_answer(rule: PythonRule, result: CommandResult, setting: Setting) -> _Answer:
    try:
        found = _Answer.model_validate_json(result.stdout)
    except ValidationError as error:
        code = result.exit_code
        ended = f"exit code {code}" if code >= 0 else f"signal {-code}"
        reason = f"its process ended with {ended} and gave no answer"
        raise CannotJudge(_failure_text(rule, reason, setting, result.stderr)) from error
    if found.error:
        raise CannotJudge(_failure_text(rule, found.error, setting, result.stderr))
    return found


def _failure_text(rule: PythonRule, reason: str, setting: Setting, stderr: str = "") -> str:
    failed = f"the plug-in `{rule.python}` failed: {one_line(reason, MAX_REASON)}"
    return setting.redact(f"{failed}{output_clause('', stderr)}")


def _found_by_plugin(rule: PythonRule, told: plugins.Finding, setting: Setting) -> Found:
    levels, redact = setting.severities.levels, setting.redact
    if told.severity and told.severity not in levels:
        reason = f"it returned the severity {told.severity!r}; there are {', '.join(levels)}"
        raise CannotJudge(_failure_text(rule, reason, setting))
    message = redact(told.message)
    finding = Finding(
        id="",
        message=message,
        severity=told.severity,
        code=redact(one_line(told.code)),
        key=redact(one_line(told.key)),
        location=redact(one_line(told.location)),
        line=told.line,
        item=further_fields(redact_data(told.fields, redact), ()),
    )
    return Found(finding, message, value=message)


MOST_CHARS = 120
"""The most characters of an item in a message."""


async def check_require(
    rule: RequireRule, subject: JudgedArtifact, setting: Setting
) -> list[Found]:
    """One finding for the artifact, or with `each` for every item that does not meet the condition.

    A path that leads to no item passes; another rule can require that there are some. Raises
    GuardError.
    """
    data = data_of(subject, tolerant=True)
    if isinstance(data, NoData):
        return [unreadable(data.reason)]
    requirement = parse_requirement(rule.require)
    items = [("", data)] if rule.each is None else select(rule.each, data)
    own = {subject.artifact: data, "artifact": data}
    names = over(sees_data(rule, setting.names) | own, setting.names)
    known: Known = {}
    unmet = (
        _unmet_requirement(rule, location, item, index)
        for index, (location, item) in enumerate(items)
        if not requirement.holds(item, over({"item": item, "index": index}, names), known)
    )
    return list(islice(unmet, MAX_FAULTS))


def _unmet_requirement(rule: RequireRule, location: str, item: object, index: int) -> Found:
    place = f"{location}: " if location else ""
    text = shorten(json.dumps(item, ensure_ascii=False), MOST_CHARS)
    shown = f", it is {text}" if rule.each is not None else ""
    message = f"{place}`{rule.require}` is required{shown}"
    return defect(message, rule.require, location, value=item, item=item, index=index)


async def check_schema(rule: SchemaRule, subject: JudgedArtifact, _setting: Setting) -> list[Found]:
    data = data_of(subject, tolerant=rule.tolerant)
    if isinstance(data, NoData):
        return [unreadable(data.reason)]
    try:
        _, faults = conform(data, parse_type(rule.schema_))
    except NotationError as error:
        raise CannotJudge(f"the schema cannot be used: {error}") from error
    except NotJudged as error:
        raise CannotJudge(f"the data could not be checked against the schema: {error}") from error
    return [
        defect(violation(location, message)[1], message, location, value=data)
        for location, message in faults[:MAX_FAULTS]
    ]


async def check_section(
    rule: SectionRule, subject: JudgedArtifact, _setting: Setting
) -> list[Found]:
    message = _missing_message(rule, subject.content)
    return [defect(message, f"section {rule.section}")] if message else []


def _missing_message(rule: SectionRule, text: str) -> str:
    if section(text, rule.section, placeholders=rule.placeholders) is not None:
        return ""
    if (written := section(text, rule.section)) is not None:
        return f'the section "{rule.section}" has only a placeholder under it: {one_line(written)}'
    if has_section(text, rule.section):
        return f'the section "{rule.section}" has no text under it'
    if not rule.or_title:
        return (
            f'no section "{rule.section}": it needs a heading or a label '
            f"`**{rule.section}:**`, with text under it"
        )
    if not title_has_text(text):
        return f'no section "{rule.section}", and no title with text under it'
    if title(text, strip=rule.strip, placeholders=rule.placeholders) is None:
        return f'no section "{rule.section}", and the title is only a placeholder'
    return ""


CHECKS: Mapping[str, RuleCheck] = {
    "acyclic": check_acyclic,
    "command": check_command,
    "contains": check_contains,
    "lookup": check_lookup,
    "matches": check_matches,
    "max_chars": check_length,
    "max_words": check_length,
    "min_chars": check_length,
    "min_words": check_length,
    "not_contains": check_not_contains,
    "not_matches": check_not_matches,
    "python": check_python,
    "require": check_require,
    "schema": check_schema,
    "section": check_section,
}
"""The check of each kind of rule that needs no model."""
