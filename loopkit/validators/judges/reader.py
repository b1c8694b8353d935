"""The reader of a judge's answer: a report, ours or by a `map`, or a verdict in text.

Each form comes to the same: an answer, or why there is none and what counts if nothing better
follows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from loopkit.engine.findings import Answer
from loopkit.text.transcript import messages_of
from loopkit.validators.answer import answer_with
from loopkit.validators.judges.findings import findings_of
from loopkit.validators.judges.form import AnswerForm, Misread
from loopkit.validators.judges.report import read_report
from loopkit.validators.judges.report_form import ReportForm
from loopkit.validators.judges.text import TextVerdict, read_verdict
from loopkit.validators.judges.text_form import TextForm


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
    if isinstance(form, ReportForm):
        return read_report(validator, reply.text, form, is_played=reply.is_played)
    assert isinstance(form, TextForm)
    return _read_text(validator, reply, form)


def _read_text(validator: str, reply: Reply, form: TextForm) -> Answer | Misread:
    messages = reply.messages or messages_of(reply.text)
    read = read_verdict(messages, form, echoes=reply.echoes)
    if isinstance(read, TextVerdict):
        return answer_with(validator, findings_of(validator, read.faults, form))
    if read.last_resort is None:
        return Misread(read.reason)
    kept = findings_of(validator, [read.last_resort], form)
    return Misread(read.reason, answer_with(validator, kept))
