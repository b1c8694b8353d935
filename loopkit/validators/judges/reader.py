"""Reading a judge's answer: a report in our form or in one that a `map` gives, or words.

Each form comes to the same: an answer, or why there is none and what counts if nothing better
follows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from loopkit.engine.findings import Answer, Finding
from loopkit.engine.identity import Defect, finding_ids
from loopkit.text.transcript import messages_of
from loopkit.validators.answer import answer_with
from loopkit.validators.fault import Fault
from loopkit.validators.judges.prompt import AnswerForm
from loopkit.validators.judges.report import Misread, read_judgement
from loopkit.validators.judges.report_findings import RULE
from loopkit.validators.judges.text import Spoken, VerdictForm, read_verdict


@dataclass(frozen=True, slots=True)
class Reply:
    """What came of a judge."""

    text: str
    messages: Sequence[str] = ()
    """All messages of a transcript, where they are more than the text."""
    is_cut_off: bool = False
    is_played: bool = False
    """It was prepared before anybody knew the ids of open findings."""
    echoes: Sequence[str] = ()
    """What the judge was asked: its answer may quote that."""


def read_answer(validator: str, reply: Reply, form: AnswerForm) -> Answer | Misread:
    """The verdict and the findings of a judge's answer, in whichever form it has to be."""
    if not reply.text.strip():
        return Misread("Your answer was empty.")
    if reply.is_cut_off:
        return Misread("Your answer was cut off before its end. Answer shorter.")
    if isinstance(form, VerdictForm):
        return _read_words(validator, reply, form)
    return read_judgement(validator, reply.text, form, is_played=reply.is_played)


def _read_words(validator: str, reply: Reply, form: VerdictForm) -> Answer | Misread:
    messages = reply.messages or messages_of(reply.text)
    read = read_verdict(messages, form, echoes=reply.echoes)
    if isinstance(read, Spoken):
        return _answer(validator, read.faults, form)
    if read.last_resort is None:
        return Misread(read.reason)
    return Misread(read.reason, _answer(validator, [read.last_resort], form))


def _answer(validator: str, faults: Sequence[Fault], form: VerdictForm) -> Answer:
    defects = [Defect(RULE, fault.location, fault.steady, fault.key) for fault in faults]
    ids = finding_ids(validator, defects, shares_keys=form.shares_keys)
    findings = [
        Finding(
            id=identity,
            message=fault.message,
            severity=fault.severity,
            blocking=form.levels.is_severe(fault.severity),
            validator=validator,
            rule=RULE,
            code=fault.code,
            key=fault.key,
            location=fault.location,
            line=fault.line,
            identified=fault.identified,
        )
        for identity, fault in zip(ids, faults, strict=True)
    ]
    return answer_with(validator, findings)
