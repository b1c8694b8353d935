"""Verdicts in text: verdict and findings of a review that is not a report in JSON."""

from __future__ import annotations

from collections.abc import Sequence

from loopkit.language.machine import NO_FINDING
from loopkit.text.patterns import PatternTimeout, occurrences
from loopkit.validators.fault import Fault
from loopkit.validators.judges.findings import criteria_faults
from loopkit.validators.judges.form import Doubt, NamesNothing, VerdictWord, quote
from loopkit.validators.judges.own_words import end_of_words, own_words
from loopkit.validators.judges.text_findings import find_findings, select_findings
from loopkit.validators.judges.text_form import TextForm
from loopkit.validators.judges.text_verdicts import choose_verdict, find_verdicts
from loopkit.values import Value


class TextVerdict(Value, frozen=True):
    """A verdict that was read, with findings that agree with it."""

    verdict: VerdictWord
    faults: tuple[Fault, ...] = ()
    """Each with its severity, without those that the text calls met."""


class NoVerdict(Value, frozen=True):
    """No verdict could be read; the reason is in sentences that the reviewer can act on."""

    reason: str
    last_resort: Fault | None = None
    """For a rejection, or a warning that names nothing: the end of the reviewer's own words, which
    counts if asking again brings nothing better."""


def read_verdict(
    messages: Sequence[str], form: TextForm, *, echoes: Sequence[str] = ()
) -> TextVerdict | NoVerdict:
    """The verdict that a reviewer gives in its messages, all of which are searched.

    `echoes` are texts that it was given and may have printed again. Quotes and fenced code are
    not its own words. Whatever leaves a doubt is NoVerdict: no verdict, an unknown word, `pass`
    or `warn` beside a finding that rejects, `fail` without one, `warn` without any, numbers
    that are missing or make no sense, and a pattern that takes too long. `pass` with a warning,
    or with fewer criteria met than checked, is `warn`. Never a pass without a match.
    """
    text = own_words(messages, echoes)
    try:
        verdicts = find_verdicts(text, form)
        chosen = choose_verdict(verdicts, form)
    except (Doubt, PatternTimeout) as doubt:
        return NoVerdict(str(doubt))
    verdict = verdicts[chosen].meaning
    assert verdict is not None
    try:
        found = find_findings(text, verdict, form)
        if form.reading.take in ("last", "first"):
            found = select_findings(found, verdicts, chosen)
        faults = [one.fault for one in found if one.fault.severity != NO_FINDING]
        faults += _unmet_criteria(text, verdict, form)
        word = quote(verdicts[chosen].word)
        form.refuse_contradiction(verdict, word, [fault.severity for fault in faults])
    except (Doubt, PatternTimeout) as doubt:
        names_nothing = verdict == "warn" and isinstance(doubt, NamesNothing)
        is_kept = verdict == "fail" or names_nothing
        kept = end_of_words(messages, verdict, form) if is_kept else None
        return NoVerdict(str(doubt), kept)
    return TextVerdict("warn" if faults and verdict == "pass" else verdict, tuple(faults))


def _unmet_criteria(text: str, verdict: VerdictWord, form: TextForm) -> list[Fault]:
    """A warning where a pass names fewer criteria met than checked."""
    counts = form.reading.counts
    if counts is None or verdict != "pass":
        return []
    met, checked = (_number(text, form.pattern(one)) for one in (counts.met, counts.checked))
    if met is None or checked is None:
        missing = "met" if met is None else "checked"
        raise Doubt(f"It does not say how many criteria are {missing}.")
    if met > checked:
        raise Doubt(f"It says that {met} criteria are met, and that {checked} were checked.")
    return criteria_faults(met, checked, form)


def _number(text: str, pattern: str) -> int | None:
    """The last number that a pattern finds; None where it finds none."""
    number = None
    for match in occurrences(pattern, text):
        found = (match[1] or "").strip()
        number = int(found) if found.isdecimal() and len(found) < 10 else None
    return number
