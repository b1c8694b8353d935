"""Faults -> findings -> one answer of the validator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from loopkit.engine.findings import Answer, Finding, latest_resume, verdict_of
from loopkit.engine.identity import OF_ARTIFACT, Defect, finding_id, finding_ids
from loopkit.language import FixedRule
from loopkit.language.guard.paths import holder
from loopkit.language.severities import Severities
from loopkit.language.template import Template, parse
from loopkit.machine.known import over
from loopkit.validators.data import data_of
from loopkit.validators.fault import CannotJudge, Fault
from loopkit.validators.judged_artifact import JudgedArtifact
from loopkit.values import NOTHING, Value

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
    return Answer.with_failure(validator, error.failure(now))


def not_applicable(validator: str, reason: str) -> Answer:
    return Answer(validator=validator, verdict="not_applicable", reason=reason)


def combine(validator: str, answers: Sequence[Answer]) -> Answer:
    """Combine the answers of the rules into one, with the findings of all.

    As in a report, `fail` takes precedence over `error`: what one rule found has to be corrected
    whatever another would have said. `error` takes precedence over all else; of several errors, a
    fatal one counts.
    """
    findings = [finding for answer in answers for finding in answer.findings]
    errors = sorted(
        (answer for answer in answers if answer.verdict == "error"),
        key=lambda answer: answer.error_class != "fatal",
    )
    reason = "; ".join(answer.reason for answer in errors)
    judged = answer_with(validator, findings)
    reasons = [a.reason for a in answers if a.verdict in ("pass", "warn", "fail") and a.reason]
    if errors and judged.verdict != "fail":
        error = {"verdict": "error", "error_class": errors[0].error_class}
        return judged.replace(**error, reason=reason, resume_at=latest_resume(errors))
    if errors:
        return judged.replace(reason="; ".join([*reasons, reason]))
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
        findings.append(
            finding_of(
                validator,
                name,
                known,
                fault,
                message=_message(rule, place, fault, texts),
                level=level,
                code=rule.code or fault.code,
                blocking=texts.severities.blocks(level) and not fault.is_known,
                origins=fault.origins or rule.origin,
                further=_further(rule, fault, texts) if rule.fields else NOTHING,
            )
        )
    return findings


def finding_of(
    validator: str,
    rule: str,
    identity: str,
    fault: Fault,
    *,
    message: str,
    level: str,
    code: str,
    blocking: bool,
    origins: tuple[str, ...],
    further: Mapping[str, str] = {},
) -> Finding:
    """The finding of a fault, with the further fields that its rule gives it."""
    return Finding(
        id=identity,
        message=message,
        severity=level,
        blocking=blocking,
        validator=validator,
        rule=rule,
        code=code,
        key=fault.key,
        origins=origins,
        location=fault.location,
        line=fault.line,
        item={**fault.fields, **further} if fault.fields or further else NOTHING,
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


def _further(rule: FixedRule, fault: Fault, texts: RuleTexts) -> dict[str, str]:
    """The further fields that a rule gives a fault; none for an artifact without data."""
    if fault.is_unreadable:
        return {}
    filled = {name: texts.fill(parse(text), fault) for name, text in rule.fields.items()}
    return {name: text for name, text in filled.items() if text}
