"""Verdicts in a text, and the one of several that counts."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from loopkit.text.patterns import occurrences
from loopkit.validators.judges.form import Doubt, VerdictWord, quoted
from loopkit.validators.judges.text_form import TextForm

if TYPE_CHECKING:
    from regex import Match

STRICTNESS: Mapping[VerdictWord, int] = {"pass": 0, "warn": 1, "fail": 2}
WORD_GROUP = "verdict"
_CONDITION = re.compile(
    r"[^\w\n]*(?:\?|\b(?:only )?(?:if|when|unless|means|otherwise)\b)", re.IGNORECASE
)
_ITEM = re.compile(r"[ \t]*(?:[-+*•]|\d+[.)])[ \t][^\d\n]*")
"""The start of an item without a time in it, as a log would have."""


@dataclass(frozen=True, slots=True)
class PlacedVerdict:
    """One verdict in a text, by the places of its first and behind its last character."""

    word: str
    meaning: VerdictWord | None
    """None where the word is not one of the known ones."""
    start: int
    end: int


def find_verdicts(text: str, form: TextForm) -> tuple[PlacedVerdict, ...]:
    """Every verdict of a text in order; words to choose from, such as "PASS or FAIL", are none.

    Raises Doubt where words that stand alone differ, and PatternTimeout.
    """
    if form.reading.pattern is not None:
        return tuple(_matching(form.pattern(form.reading.pattern), text, form))
    if labelled := _stated(text, list(_matching(form.labelled, text, form))):
        return labelled
    bare = tuple(_matching(form.bare, text, form))
    if len({said.meaning for said in bare}) > 1:
        # Each may be the verdict on a part.
        words = " and ".join(dict.fromkeys(quoted(said.word) for said in bare))
        raise Doubt(f"{words} stand alone on a line each. Give one verdict, as `Verdict: WORD`.")
    return bare


def choose_verdict(said: Sequence[PlacedVerdict], form: TextForm) -> int:
    """The index of the verdict that counts; raises Doubt where there is none or it is not clear."""
    if not said:
        raise Doubt(f"It holds no verdict: none of {_words(form)} where a verdict stands.")
    last = len(said) - 1
    match form.reading.take:
        case "last":
            chosen = last
        case "first":
            chosen = 0
        case "unique":
            chosen = last
            _refuse_unknown(said, form)
            if len({one.meaning for one in said}) > 1:
                given = " and ".join(dict.fromkeys(quoted(one.word) for one in said))
                raise Doubt(f"It gives several verdicts: {given}. Give exactly one.")
        case "strictest":
            _refuse_unknown(said, form)
            chosen = max(range(len(said)), key=lambda at: (_strictness(said[at]), at))
    _refuse_unknown(said[chosen : chosen + 1], form)
    return chosen


def _strictness(said: PlacedVerdict) -> int:
    return STRICTNESS[said.meaning] if said.meaning else len(STRICTNESS)


def _refuse_unknown(said: Sequence[PlacedVerdict], form: TextForm) -> None:
    for one in said:
        if one.meaning is None:
            raise Doubt(f"Its verdict is {quoted(one.word[:60])}, which is none of {_words(form)}.")


def _words(form: TextForm) -> str:
    return ", ".join(map(quoted, form.words))


def _matching(pattern: str, text: str, form: TextForm) -> Iterator[PlacedVerdict]:
    choices = [match.span() for match in occurrences(form.choice, text)]
    starts = [start for start, _ in choices]
    for match in occurrences(pattern, text):
        start, end = _span(match)
        before = bisect_right(starts, start)
        is_offered = before > 0 and end <= choices[before - 1][1]
        if start >= 0 and not is_offered:
            word = text[start:end].strip()
            yield PlacedVerdict(word, form.meaning(word), start, end)


def _span(match: Match[str]) -> tuple[int, int]:
    """Where the word of a match stands; negative where it has none."""
    named = match.re.groupindex
    span = match.span(WORD_GROUP if WORD_GROUP in named else 1)
    return span[0], span[1]


def _is_condition(text: str, said: PlacedVerdict) -> bool:
    """Whether it says when the verdict would be given, not that it is."""
    return _CONDITION.match(text, said.end) is not None


def _stated(text: str, said: Sequence[PlacedVerdict]) -> tuple[PlacedVerdict, ...]:
    """Those that are given, not explained: by "PASS if …", or in a list of different ones."""
    lists: list[list[PlacedVerdict]] = []
    for one in said:
        if lists and _goes_on(text, lists[-1][-1], one):
            lists[-1].append(one)
        else:
            lists.append([one])
    given = (
        listed
        for listed in lists
        if len({one.meaning for one in listed}) == 1
        and not any(_is_condition(text, one) for one in listed)
    )
    return tuple(one for listed in given for one in listed)


def _goes_on(text: str, before: PlacedVerdict, one: PlacedVerdict) -> bool:
    """Whether two verdicts are items of a list, one right below the other."""
    return text.count("\n", before.end, one.start) == 1 and all(
        _ITEM.fullmatch(text, text.rfind("\n", 0, said.start) + 1, said.start)
        for said in (before, one)
    )
