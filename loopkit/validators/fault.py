"""What the checks of rules find → findings → one answer of the validator."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from loopkit.engine.findings import (
    OF_ARTIFACT,
    Answer,
    Defect,
    Finding,
    finding_id,
    finding_ids,
    verdict_of,
)
from loopkit.engine.records import Failure
from loopkit.language.guard.evaluate import holder
from loopkit.language.section import ErrorClass
from loopkit.language.template.rendering import parse
from loopkit.language.template.sandbox import FieldedText
from loopkit.language.validators import Rule
from loopkit.language.validators.rule import FixedRule
from loopkit.machine.scope import over
from loopkit.text import shorten
from loopkit.validators.data import JudgedArtifact, NoData, data_of
from loopkit.values import NOTHING, Value

if TYPE_CHECKING:
    # A prompt is made from what is here, without anything that starts programs.
    from loopkit.validators.setting import Setting

MAX_FAULTS = 50
"""The most findings of one rule; a text that is wrong everywhere needs no longer list."""


class Found(Value, frozen=True):
    """A finding of a check, and what its rule needs for its id, its severity and its texts."""

    finding: Finding
    """Without an id; its severity, code and origins are empty where the check does not know them.
    Its message says what is wrong and what is expected, for rules without a `message:`."""
    steady: str
    """What stays the same while the defect does: the message without counts, sizes and times."""
    value: object = None
    """For `message:`, what was judged: a match, a count, a number of characters, an item."""
    item: object = None
    index: int | None = None
    """For `message:`, the number of the item or the match, from 0."""
    is_unreadable: bool = False
    """The rule could not be applied at all, so its `message:` would mislead."""
    is_known: bool = False
    """It was there before the run's first work, so it never blocks."""
    exact: str = ""
    """What makes it the same as one of a baseline, where `steady` says too little."""


def defect(
    message: str,
    steady: str,
    location: str = "",
    line: int | None = None,
    *,
    value: object = None,
    item: object = None,
    index: int | None = None,
) -> Found:
    """A defect of which the check knows no more than what is wrong, and where."""
    finding = Finding(id="", message=message, severity="", location=location, line=line)
    return Found(finding, steady, value, item, index)


def unreadable(reason: str) -> Found:
    return defect(reason, "no data").replace(is_unreadable=True)


class CannotJudge(Exception):
    """The check could not come to a verdict; the reason is a sentence with a remedy.

    `retry_after_s` is the wait that a program asks for, where it names one.
    """

    def __init__(
        self, reason: str, error_class: ErrorClass = "fatal", retry_after_s: float | None = None
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.error_class = error_class
        self.retry_after_s = retry_after_s

    def failure(self, now: float) -> Failure:
        """Why there is no verdict; `now` is the Unix time from which a wait counts."""
        resume_at = None if self.retry_after_s is None else now + self.retry_after_s
        return Failure(self.error_class, self.reason, resume_at=resume_at)


class NotStarted(CannotJudge):
    """The program does not exist, or cannot be executed."""


def amount(number: int) -> str:
    """`1 is`, `2,000 are`."""
    return f"{number:,} is" if number == 1 else f"{number:,} are"


def answer_with(validator: str, findings: Sequence[Finding], reason: str = "") -> Answer:
    """`fail` with a blocking finding, `warn` with others only, `pass` with none."""
    verdict, found = verdict_of(findings), tuple(findings)
    return Answer(validator=validator, verdict=verdict, findings=found, reason=reason)


OF_FOUND = ("item", "index", "value", "parent")
"""The names of a defect that the texts of its rule may use."""


def ids_of(rule: FixedRule, found: Sequence[Found], setting: Setting, *, exact: bool) -> list[str]:
    """The ids of what a rule found; `exact` ones are those that baselines are compared by."""
    defects = [
        Defect(
            rule=rule.code or setting.place,
            location=one.finding.location,
            message=(exact and one.exact) or one.steady,
            key=one.finding.key,
        )
        for one in found
    ]
    return finding_ids(setting.validator, defects)


def complete(
    rule: FixedRule, found: Sequence[Found], subject: JudgedArtifact, setting: Setting
) -> list[Finding]:
    """The findings of a rule, with ids, severities, codes and the texts of the rule.

    Raises TemplateError, and CannotJudge where the rule's `message:` comes out empty.
    """
    levels = setting.severities
    names = subject.names(setting.names)
    findings = []
    for identity, one in zip(ids_of(rule, found, setting, exact=False), found, strict=True):
        draft = one.finding
        level = rule.severity or levels.ungraded
        if draft.severity:
            # The severity that the check knows, with that of the rule as its cap.
            level = levels.with_cap(draft.severity, rule.severity)
        fields = {} if one.is_unreadable else rule.fields
        filled = {key: _fill(text, one, subject, names) for key, text in fields.items()}
        finding = draft.replace(
            # An artifact that can't be read is one defect, whichever rule tries to.
            id=finding_id(OF_ARTIFACT, "", "", one.steady) if one.is_unreadable else identity,
            message=_message(rule, setting.place, one, subject, names),
            severity=level,
            blocking=levels.blocks(level) and not one.is_known,
            validator=setting.validator,
            rule=rule.code or setting.place,
            code=rule.code or draft.code,
            origins=draft.origins or rule.origin,
            item={**draft.item, **{key: text for key, text in filled.items() if text}} or NOTHING,
        )
        findings.append(finding)
    return findings


def _message(
    rule: FixedRule, place: str, found: Found, subject: JudgedArtifact, names: Mapping[str, object]
) -> str:
    if rule.message is None or (found.is_unreadable and not rule.explains_unreadable):
        return found.finding.message
    message = _fill(rule.message, found, subject, names)
    if not message:
        raise CannotJudge(f"the message of the rule {place} came out empty; write what is wrong")
    # The output of a program is the only trace of the defect, unless the message repeats it.
    is_repeated = not rule.keeps_output or not parse(rule.message).names.isdisjoint(OF_FOUND)
    output = found.value if found.item is None else found.finding.message
    return message if is_repeated or not output else f"{message}\n{output}"


def _fill(text: str, found: Found, subject: JudgedArtifact, names: Mapping[str, object]) -> str:
    template = parse(text)
    own: dict[str, object] = {"item": found.item, "index": found.index, "value": found.value}
    if "parent" in template.names:
        own["parent"] = holder(found.finding.location, data_of(subject, tolerant=True))
    return template.render(over(own, names)).strip()


ITEM_CHARS = 8_000
"""The most characters, in JSON, of all further fields of a finding."""
TEXT_CHARS = 2_000
"""The most characters of a text among these fields; the rest is cut off."""


def further_fields(item: Mapping[str, Any], own: Collection[str]) -> dict[str, object]:
    kept: dict[str, object] = {}
    room = ITEM_CHARS
    for name, value in item.items():
        cut = shorten(value, TEXT_CHARS) if isinstance(value, str) else value
        text = json.dumps(cut, ensure_ascii=False)
        if name not in own and len(name) + len(text) <= room:
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
    value: object = names
    for step in path.split("."):
        fields = value.fields if isinstance(value, FieldedText) else value
        value = fields.get(step) if isinstance(fields, Mapping) else None
    return value
