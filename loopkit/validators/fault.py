"""Faults → findings → one answer of the validator."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from loopkit.engine.findings import (
    OF_ARTIFACT,
    Answer,
    Defect,
    Finding,
    finding_id,
    finding_ids,
    latest_resume,
    verdict_of,
)
from loopkit.engine.records import Failure
from loopkit.language.agents.calls import ErrorClass
from loopkit.language.facts import Severities
from loopkit.language.guard.evaluate import holder
from loopkit.language.template.plain_data import FieldedText
from loopkit.language.template.rendering import Template, parse
from loopkit.language.validators import Rule
from loopkit.language.validators.rule import FixedRule
from loopkit.machine.scope import over
from loopkit.text import shorten
from loopkit.validators.data import NoData, data_of
from loopkit.validators.judged_artifact import JudgedArtifact
from loopkit.values import NOTHING, Value

MAX_FAULTS = 50
"""The most faults that one rule names; a text that is wrong everywhere needs no longer list."""


class Fault(Value, frozen=True):
    """One defect, before it has a severity and an id."""

    message: str
    """What is wrong and what is expected; used where the rule has no `message:`."""
    steady: str
    """What stays the same while the defect does: the message without counts, sizes and times."""
    location: str = ""
    line: int | None = None
    severity: str = ""
    """How bad it is, where the check knows; else the rule says it."""
    code: str = ""
    """The kind of defect, where the check knows it and the rule has no code."""
    key: str = ""
    """The name that its reviewer gives it, however it is worded."""
    origins: tuple[str, ...] = ()
    """The states that have to correct it, where the check knows; else the rule may say it."""
    word: str = ""
    """The reviewer's word for its severity."""
    fields: Mapping[str, object] = MappingProxyType({})
    """The further fields that a report gives it."""
    value: object = None
    """For `message:`, what was judged: a match, a count, a number of characters, an item."""
    item: object = None
    index: int | None = None
    """For `message:`, the number of the item or the match, from 0."""
    is_unreadable: bool = False
    """The rule could not be applied at all, so its `message:` would mislead."""
    is_known: bool = False
    """It was there before the run's first work, so it never blocks."""
    identified: bool = True
    """Whether `steady` tells this defect from others, as an exit code alone does not."""
    exact: str = ""
    """What makes it the same as one of a baseline, where `steady` says too little."""


class Found(Value, frozen=True):
    """The defects that a check found, and a remark on how it judged."""

    faults: Sequence[Fault]
    reason: str = ""
    """How two sources of the verdict disagree, where they do."""


def unreadable(reason: str) -> Fault:
    """The fault of an artifact in which there is no data."""
    return Fault(reason, "no data", is_unreadable=True)


class CannotJudge(Exception):
    """The check could not come to a verdict; the reason is a sentence with a remedy.

    `retry_after_s` is the wait that a program asks for, where it names one.
    """

    def __init__(
        self,
        reason: str,
        error_class: ErrorClass = "fatal",
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.error_class = error_class
        self.retry_after_s = retry_after_s

    def failure(self, now: float) -> Failure:
        """Why there is no verdict; `now` is the Unix time from which a wait counts."""
        wait_s = self.retry_after_s
        resume_at = None if wait_s is None else now + wait_s
        return Failure(self.error_class, self.reason, resume_at=resume_at)


class NotStarted(CannotJudge):
    """The program does not exist, or cannot be executed."""


def amount(number: int) -> str:
    """`1 is`, `2,000 are`."""
    return f"{number:,} is" if number == 1 else f"{number:,} are"


OF_FAULT = ("item", "index", "value", "parent")
"""The names of a fault that its texts may use."""


class RuleTexts(Value, frozen=True):
    """What fills in the texts of a rule, and how bad a finding is."""

    subject: JudgedArtifact
    names: Mapping[str, object]
    """The names of templates, without those of the subject."""
    severities: Severities

    def fill(self, template: Template, fault: Fault) -> str:
        if template.constant is not None:
            return template.constant.strip()
        own: dict[str, object] = {"item": fault.item, "index": fault.index, "value": fault.value}
        if "parent" in template.names:
            own["parent"] = holder(fault.location, data_of(self.subject, tolerant=True))
        return template.render(over(own, self.subject.names(self.names))).strip()


def answer_with(validator: str, findings: Sequence[Finding], reason: str = "") -> Answer:
    """`fail` with a blocking finding, `warn` with others only, `pass` with none."""
    verdict, found = verdict_of(findings), tuple(findings)
    return Answer(validator=validator, verdict=verdict, findings=found, reason=reason)


def answer_without(validator: str, error: CannotJudge, now: float = 0.0) -> Answer:
    """An answer without a verdict; `now` is the Unix time at which a program's wait begins."""
    answer = Answer.with_failure(validator, error.failure(now))
    return answer.replace(not_started=isinstance(error, NotStarted))


def not_applicable(validator: str, reason: str) -> Answer:
    return Answer(validator=validator, verdict="not_applicable", reason=reason)


def combine(validator: str, answers: Sequence[Answer]) -> Answer:
    """Combine the answers of the rules into one, with the findings of all.

    As in a report, `fail` takes precedence over `error`: what one rule found has to be corrected
    whatever another would have said; the class and the reason of the error are kept beside it.
    `error` takes precedence over all else; of several errors, a fatal one counts.
    """
    findings = [finding for answer in answers for finding in answer.findings]
    errors = sorted(
        (answer for answer in answers if answer.verdict == "error"),
        key=lambda answer: answer.error_class != "fatal",
    )
    judged = answer_with(validator, findings)
    reasons = [a.reason for a in answers if a.verdict in ("pass", "warn", "fail") and a.reason]
    if errors:
        if judged.verdict != "fail":
            judged, reasons = judged.replace(verdict="error"), []
        return judged.replace(
            error_class=errors[0].error_class,
            not_started=any(answer.not_started for answer in errors),
            reason="; ".join([*reasons, *(answer.reason for answer in errors)]),
            resume_at=latest_resume(errors),
        )
    if all(answer.verdict == "not_applicable" for answer in answers):
        return not_applicable(validator, "; ".join(answer.reason for answer in answers))
    return judged.replace(reason="; ".join(reasons))


def findings_of(
    validator: str, rule: FixedRule, place: str, faults: Sequence[Fault], texts: RuleTexts
) -> list[Finding]:
    """The findings of one rule; `place` names it where it has no code.

    Raises TemplateError, and CannotJudge where the rule's `message:` comes out empty.
    """
    name = rule.code or place
    defects = [Defect(name, fault.location, fault.steady, fault.key) for fault in faults]
    findings = []
    for identity, fault in zip(finding_ids(validator, defects), faults, strict=True):
        level = rule.severity or texts.severities.ungraded
        if fault.severity:
            # The severity that the check knows, with_cap at that of the rule.
            level = texts.severities.with_cap(fault.severity, rule.severity)
        # An artifact that can't be read is one defect, whichever rule tries to.
        known = finding_id(OF_ARTIFACT, "", "", fault.steady) if fault.is_unreadable else identity
        message = _message(rule, place, fault, texts)
        fields = {} if fault.is_unreadable else rule.fields
        filled = {named: texts.fill(parse(text), fault) for named, text in fields.items()}
        told = fault.replace(
            message=message,
            severity=level,
            code=rule.code or fault.code,
            origins=fault.origins or rule.origin,
            fields={**fault.fields, **{named: text for named, text in filled.items() if text}},
        )
        blocking = texts.severities.blocks(level) and not fault.is_known
        findings.append(finding_of(validator, name, known, told, blocking=blocking))
    return findings


def finding_of(
    validator: str, rule: str, identity: str, fault: Fault, *, blocking: bool
) -> Finding:
    """The finding of a fault that has its severity."""
    return Finding(
        id=identity,
        message=fault.message,
        severity=fault.severity,
        blocking=blocking,
        validator=validator,
        rule=rule,
        code=fault.code,
        key=fault.key,
        origins=fault.origins,
        location=fault.location,
        line=fault.line,
        item={**fault.fields} or NOTHING,
        identified=fault.identified,
    )


def _message(rule: FixedRule, place: str, fault: Fault, texts: RuleTexts) -> str:
    if rule.message is None or (fault.is_unreadable and not rule.explains_unreadable):
        return fault.message
    template = parse(rule.message)
    message = texts.fill(template, fault)
    if not message:
        raise CannotJudge(f"the message of the rule {place} came out empty; write what is wrong")
    # The output of a program is the only trace of the defect, unless the message repeats it.
    is_repeated = not rule.keeps_output or not template.names.isdisjoint(OF_FAULT)
    output = fault.value if fault.item is None else fault.message
    return message if is_repeated or not output else f"{message}\n{output}"


ITEM_CHARS = 8_000
"""The most characters, in JSON, of all further fields of a finding."""
TEXT_CHARS = 2_000
"""The most characters of a text among these fields; the rest is cut off."""


def further_fields(item: Mapping[str, Any], own: Collection[str]) -> dict[str, object]:
    """The fields of an item without its `own`, as many as there is room for."""
    kept: dict[str, object] = {}
    room = ITEM_CHARS
    for name, value in item.items():
        if name in own:
            continue
        if isinstance(value, str):
            value = shorten(value, TEXT_CHARS)
        text = json.dumps(value, ensure_ascii=False)
        if len(name) + len(text) <= room:
            room -= len(name) + len(text)
            kept[name] = json.loads(text)
    return kept


def sees_values(rule: Rule, names: Mapping[str, object]) -> dict[str, object]:
    """The value of each dotted name under `sees:`; what is missing is left out."""
    values = {path: _value_at(path, names) for path in rule.shown}
    return {path: value for path, value in values.items() if value is not None}


def sees_data(rule: Rule, names: Mapping[str, object]) -> dict[str, object]:
    """The values under `sees:` as data, by first words: of a text, the data in it or its fields."""
    seen: dict[str, object] = {}
    for name in dict.fromkeys(path.partition(".")[0] for path in rule.shown):
        value = names.get(name)
        if isinstance(value, FieldedText):
            data = data_of(JudgedArtifact(name, value), tolerant=True)
            fields = value.fields or value
            value = fields if isinstance(data, NoData) else data
        if value is not None:
            seen[name] = value
    return seen


def _value_at(path: str, names: Mapping[str, object]) -> object:
    """The value at a dotted path, None where a step is missing."""
    value: object = names
    for step in path.split("."):
        fields = value.fields if isinstance(value, FieldedText) else value
        value = fields.get(step) if isinstance(fields, Mapping) else None
    return value
