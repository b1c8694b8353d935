"""Verdicts in text: a verdict and findings out of a review that is not a report in JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from loopkit.language.machine import NO_FINDING
from loopkit.text import printable
from loopkit.text.patterns import PatternTimeout, occurrences
from loopkit.validators.answer import storable
from loopkit.validators.fault import Fault
from loopkit.validators.judges.own_words import own_words
from loopkit.validators.judges.report_form import Doubt, quoted
from loopkit.validators.judges.text_findings import (
    PlacedFinding,
    find_findings,
    is_met,
    select_findings,
)
from loopkit.validators.judges.text_form import VerdictForm, VerdictWord
from loopkit.validators.judges.text_verdicts import PlacedVerdict, choose_verdict, find_verdicts

TAIL_CHARS = 2_000
"""How much of the end of a text stands for findings that it does not name."""

__all__ = ["Spoken", "Unspoken", "VerdictForm", "VerdictWord", "read_verdict"]


class NamesNothing(Doubt):
    """Something should be better, and nothing says what."""


@dataclass(frozen=True, slots=True)
class Spoken:
    """A verdict that was read, with findings that agree with it."""

    verdict: VerdictWord
    faults: tuple[Fault, ...] = ()
    """Each with its severity; none of those that the text calls met."""


@dataclass(frozen=True, slots=True)
class Unspoken:
    """No verdict could be read; the reason is in sentences that the reviewer can act on."""

    reason: str
    last_resort: Fault | None = None
    """Where it rejects, or warns, and names nothing: the end of its own words, for when asking
    again gives nothing better."""


def read_verdict(
    messages: Sequence[str], form: VerdictForm, *, echoes: Sequence[str] = ()
) -> Spoken | Unspoken:
    """The verdict that a reviewer gives in its messages, all of which are searched.

    `echoes` are texts that it was given and may have printed again. Quotes and fenced code are
    not its own words. Whatever leaves a doubt is Unspoken: no verdict, an unknown word, `pass`
    or `warn` beside a finding that rejects, `fail` without one, `warn` without any, numbers
    that are missing or make no sense, and a pattern that takes too long. `pass` with a warning,
    or with fewer criteria met than checked, is `warn`. Never a pass without a match.
    """
    text = own_words(messages, echoes)
    try:
        said = find_verdicts(text, form)
        chosen = choose_verdict(said, form)
    except (Doubt, PatternTimeout) as doubt:
        return Unspoken(storable(str(doubt)))
    verdict = said[chosen].meaning
    assert verdict is not None
    try:
        faults = [*_found(text, said, chosen, form), *_unmet(text, verdict, form)]
        _refuse_contradiction(said[chosen], faults, form)
    except (Doubt, PatternTimeout) as doubt:
        names_nothing = verdict == "warn" and isinstance(doubt, NamesNothing)
        is_kept = verdict == "fail" or names_nothing
        kept = _own_words(messages, verdict, form) if is_kept else None
        return Unspoken(storable(str(doubt)), kept)
    return Spoken("warn" if faults and verdict == "pass" else verdict, tuple(faults))


def _found(text: str, said: Sequence[PlacedVerdict], chosen: int, form: VerdictForm) -> list[Fault]:
    verdict = said[chosen].meaning
    assert verdict is not None
    listed: Sequence[PlacedFinding] = find_findings(text, verdict, form)
    if form.reading.take in ("last", "first"):
        listed = select_findings(listed, said, chosen)
    return [one.fault for one in listed if one.fault.severity != NO_FINDING]


def _unmet(text: str, verdict: VerdictWord, form: VerdictForm) -> list[Fault]:
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
    if met == checked:
        return []
    message = f"{met} of {checked} criteria are met."
    return [Fault(message, "unmet criteria", severity=form.levels.advisory, value=met)]


def _number(text: str, pattern: str) -> int | None:
    """The last number that a pattern finds."""
    number = None
    for match in occurrences(pattern, text):
        found = (match[1] or "").strip()
        number = int(found) if found.isdecimal() and len(found) < 10 else None
    return number


def _refuse_contradiction(said: PlacedVerdict, faults: Sequence[Fault], form: VerdictForm) -> None:
    has_error = any(form.levels.is_severe(fault.severity) for fault in faults)
    rejects = any(form.levels.rejects(fault.severity, form.cap) for fault in faults)
    # Where nothing can reject, what is named has been said, whatever it was called.
    only_advises = form.cap is not None and not form.levels.is_severe(form.cap)
    given = f"The verdict is {quoted(said.word)}, but"
    if said.meaning == "fail" and not (faults if only_advises else has_error):
        raise Doubt(
            f"{given} no finding says what has to be corrected. "
            "Name it in the form of a finding, or give another verdict."
        )
    if said.meaning != "fail" and rejects:
        raise Doubt(f"{given} a finding says that something has to be corrected. Make them agree.")
    if said.meaning == "warn" and not faults:
        raise NamesNothing(
            f"{given} there are no findings. Name what should be better, or give another verdict."
        )


def _own_words(messages: Sequence[str], verdict: VerdictWord, form: VerdictForm) -> Fault:
    """What was said and is not met, as a finding: its end, after the lines before that fail."""
    whole = "\n\n".join(text for message in messages if (text := printable(message).strip()))
    try:
        said = _without_met(whole, form)
        end = _end_of(said)
        said = end if end == said else "\n".join((*_failing(said, end, form), "…", end))
    except PatternTimeout:
        # The pattern is told of in the reason; the words count as they are.
        said = _end_of(whole)
    level = form.levels.ungraded if verdict == "fail" else form.levels.advisory
    return Fault(storable(said), storable(said), severity=level, value=said, identified=False)


def _end_of(said: str) -> str:
    """As much of the end of a text as a finding may have."""
    if len(said) <= TAIL_CHARS:
        return said
    # From the start of a line, unless the last line alone is longer.
    _cut, _newline, lines = said[-TAIL_CHARS:].partition("\n")
    return lines or said[-TAIL_CHARS:]


def _without_met(said: str, form: VerdictForm) -> str:
    """The text without the findings in it that say that all is well."""
    parts, kept = [], 0
    for match in occurrences(form.listed, said):
        if is_met(match, form):
            parts.append(said[kept : match.start()])
            kept = match.end()
    return "".join((*parts, said[kept:])).strip()


def _failing(said: str, end: str, form: VerdictForm) -> Iterator[str]:
    """The lines before the end in which something fails, in all no longer than the end may be."""
    before = said.removesuffix(end)
    room, seen = TAIL_CHARS, 0
    for match in occurrences(form.failing, before):
        if match.start() < seen:
            continue
        start = before.rfind("\n", seen, match.start()) + 1 or seen
        seen = before.find("\n", match.end()) + 1 or len(before)
        line = before[start:seen].rstrip("\n")
        if len(line) < room:
            room -= len(line) + 1
            yield line
