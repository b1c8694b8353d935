"""The reader of a judge's answer: a report, ours or by a `map`, or a verdict in text.

Each form leads to an answer, or to the reason why there is none and what counts if nothing better
follows.
"""

from __future__ import annotations

from collections.abc import Sequence

from loopkit.engine.events import Replied
from loopkit.engine.findings import Answer
from loopkit.text.transcript import messages_of
from loopkit.validators.answer import answer_with
from loopkit.validators.judges.findings import findings_of
from loopkit.validators.judges.form import AnswerForm, Misread
from loopkit.validators.judges.report import read_report
from loopkit.validators.judges.report_form import ReportForm
from loopkit.validators.judges.text import TextVerdict, read_verdict
from loopkit.validators.judges.text_form import TextForm


def read_answer(
    validator: str, replied: Replied, form: AnswerForm, *, echoes: Sequence[str] = ()
) -> Answer | Misread:
    """The verdict and the findings of a judge's answer, which has to be in this form.

    `echoes` are its prompts, which the answer may quote.
    """
    if not replied.text.strip():
        return Misread("Your answer was empty.")
    if replied.cut_off:
        return Misread("Your answer was cut off before its end. Answer shorter.")
    repeats = any(form.nonce in text for text in (replied.text, *replied.said))
    if form.nonce and not replied.played and not repeats:
        return Misread(
            f"It does not repeat `{form.nonce}`, the code of this question, so it may be the "
            "answer to another one."
        )
    if isinstance(form, ReportForm):
        return read_report(validator, replied.text, form, is_played=replied.played)
    assert isinstance(form, TextForm)
    read = read_verdict(replied.said or messages_of(replied.text), form, echoes=echoes)
    if isinstance(read, TextVerdict):
        return answer_with(validator, findings_of(validator, read.faults, form))
    if read.last_resort is None:
        return Misread(read.reason)
    own_words = findings_of(validator, [read.last_resort], form)
    return Misread(read.reason, answer_with(validator, own_words))
