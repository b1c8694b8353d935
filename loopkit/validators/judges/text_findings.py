"""Findings in a text, and those among them that belong to the verdict that counts."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import TYPE_CHECKING

from loopkit.language.machine import NO_FINDING
from loopkit.text.patterns import occurrences
from loopkit.validators.fault import Fault
from loopkit.validators.judges.findings import MAX_LINE
from loopkit.validators.judges.form import Doubt, VerdictWord, quote
from loopkit.validators.judges.text_form import IN_MESSAGE, TextForm
from loopkit.validators.judges.text_verdicts import PlacedVerdict
from loopkit.values import Value

if TYPE_CHECKING:
    from regex import Match


class PlacedFinding(Value, frozen=True):
    """A finding at its place in the text."""

    at: int
    fault: Fault
    """Its severity is a level, or `none` where the line reports a success."""
    meaning: VerdictWord


def find_findings(text: str, verdict: VerdictWord, form: TextForm) -> list[PlacedFinding]:
    """Every finding of a text in order, those that are met as well.

    `verdict` replaces the severity where the pattern has no such group. Raises Doubt at an
    unknown word, and PatternTimeout.
    """
    return [_read(match, verdict, form) for match in occurrences(form.listed, text)]


def is_met(match: Match[str], form: TextForm) -> bool:
    """Whether a finding reports a success."""
    return form.level(_group(match, "severity")) == NO_FINDING


def select_findings(
    listed: Sequence[PlacedFinding], said: Sequence[PlacedVerdict], chosen: int
) -> list[PlacedFinding]:
    """The findings that belong to the chosen one of several verdicts.

    If findings come before the first verdict, each verdict follows its findings; else it precedes
    them. A verdict without any has those before it that do not go with the other verdict beside
    them.
    """
    parts = _parts(listed, said)
    is_below = not parts[0]
    near = [*parts[chosen + 1]] if is_below else [*parts[chosen]]
    if not is_below and chosen == len(said) - 1:
        near += parts[chosen + 1]
    for at in range(chosen, -1, -1):
        near = near or [one for one in parts[at] if not _is_of_another(one, said, at, chosen)]
    return near


def _parts(
    listed: Sequence[PlacedFinding], said: Sequence[PlacedVerdict]
) -> list[list[PlacedFinding]]:
    """The findings before the first verdict, and those that follow each of them."""
    parts: list[list[PlacedFinding]] = [[] for _ in range(len(said) + 1)]
    starts = [verdict.start for verdict in said]
    for one in listed:
        parts[bisect_left(starts, one.at)].append(one)
    return parts


def _is_of_another(one: PlacedFinding, said: Sequence[PlacedVerdict], at: int, chosen: int) -> bool:
    """Whether a finding goes with a verdict beside it that means something else than the chosen."""
    beside = {said[near].meaning for near in (at - 1, at) if 0 <= near < chosen}
    return one.meaning in beside - {said[chosen].meaning}


def _read(match: Match[str], verdict: VerdictWord, form: TextForm) -> PlacedFinding:
    message = " ".join((_group(match, "message") or match.group()).split())
    if not message:
        raise Doubt(f"The finding {quote(match.group().strip()[:60])} says nothing.")
    level, meaning = _level(match, verdict, form)
    file, line = _place(match, message)
    fault = Fault(
        message=message,
        steady=message,
        location=file,
        line=line,
        severity=level,
        code=_group(match, "code"),
        key=_group(match, "key"),
        value=message,
    )
    return PlacedFinding(match.start(), fault, meaning)


def _level(match: Match[str], verdict: VerdictWord, form: TextForm) -> tuple[str, VerdictWord]:
    word = _group(match, "severity")
    if not word:
        meaning: VerdictWord = "fail" if verdict == "fail" else "warn"
        level = form.levels.ungraded if verdict == "fail" else form.levels.advisory
        return level, meaning
    known = form.level(word)
    if known is None:
        choices = ", ".join(map(quote, (*form.words, *form.levels.levels)))
        raise Doubt(f"A finding has the word {quote(word[:60])}, which is none of {choices}.")
    if known == NO_FINDING:
        return known, "pass"
    return known, "fail" if form.levels.is_severe(known) else "warn"


def _place(match: Match[str], message: str) -> tuple[str, int | None]:
    """The file and the line that a finding names, in groups or in its message."""
    file, line = _group(match, "file"), _group(match, "line")
    if not file and not line:
        found = next(occurrences(IN_MESSAGE, message), None)
        file, line = (found["file"], found["line"]) if found else ("", "")
    number = int(line) if line.isdecimal() and len(line) < 10 else 0
    return file, number if 1 <= number <= MAX_LINE else None


def _group(match: Match[str], name: str) -> str:
    """The text of a named group; empty where the pattern has no such group, or it took no part."""
    return (match[name] or "").strip() if name in match.re.groupindex else ""
