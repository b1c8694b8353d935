"""Verdicts in a text, and the one of several that counts."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence

from loopkit.text.patterns import occurrences
from loopkit.validators.judges.form import Doubt, VerdictWord, quote
from loopkit.validators.judges.text_form import TextForm
from loopkit.values import Value

BY_STRICTNESS: Sequence[VerdictWord] = ("pass", "warn", "fail")
_CONDITION = re.compile(
    r"[^\w\n]*(?:\?|\b(?:only )?(?:if|when|unless|means|otherwise)\b)", re.IGNORECASE
)
"""After a verdict: says when that verdict would be given, not that it is."""
_ITEM = re.compile(r"[ \t]*(?:[-+*•]|\d+[.)])[ \t][^\d\n]*")
"""The start of a list item without a time in it, such as one of a log."""


class PlacedVerdict(Value, frozen=True):
    """One verdict in a text, with the places of its first character and after its last."""

    word: str
    meaning: VerdictWord | None
    """None where the word is not one of the known ones."""
    start: int
    end: int


def find_verdicts(text: str, form: TextForm) -> tuple[PlacedVerdict, ...]:
    """Every verdict of a text in order; a list of options such as "PASS or FAIL" is not a verdict.

    Raises Doubt where words that stand alone differ, and PatternTimeout.
    """
    if form.reading.pattern is not None:
        return tuple(_matching_verdicts(form.pattern(form.reading.pattern), text, form))
    if labelled := _actual_verdicts(text, list(_matching_verdicts(form.labelled, text, form))):
        return labelled
    bare = tuple(_matching_verdicts(form.bare, text, form))
    if len({said.meaning for said in bare}) > 1:
        # Each may be the verdict on a part.
        words = " and ".join(dict.fromkeys(quote(said.word) for said in bare))
        raise Doubt(f"{words} stand alone on a line each. Give one verdict, as `Verdict: WORD`.")
    return bare


def choose_verdict(verdicts: Sequence[PlacedVerdict], form: TextForm) -> int:
    """The index of the verdict that counts; raises Doubt where there is none or it is not clear."""
    if not verdicts:
        raise Doubt(f"It holds no verdict: none of {_words(form)} where a verdict stands.")
    take, chosen = form.reading.take, len(verdicts) - 1
    if take in ("unique", "strictest"):
        _refuse_unknown(verdicts, form)
    if take == "unique" and len({one.meaning for one in verdicts}) > 1:
        words = " and ".join(dict.fromkeys(quote(one.word) for one in verdicts))
        raise Doubt(f"It gives several verdicts: {words}. Give exactly one.")
    if take == "first":
        chosen = 0
    if take == "strictest":
        strictest = max((one.meaning for one in verdicts), key=BY_STRICTNESS.index)
        chosen = max(at for at, one in enumerate(verdicts) if one.meaning == strictest)
    _refuse_unknown(verdicts[chosen : chosen + 1], form)
    return chosen


def _refuse_unknown(verdicts: Sequence[PlacedVerdict], form: TextForm) -> None:
    for one in verdicts:
        if one.meaning is None:
            raise Doubt(f"Its verdict is {quote(one.word[:60])}, which is none of {_words(form)}.")


def _words(form: TextForm) -> str:
    return ", ".join(map(quote, form.words))


def _matching_verdicts(pattern: str, text: str, form: TextForm) -> Iterator[PlacedVerdict]:
    choices = [match.span() for match in occurrences(form.choice, text)]
    starts = [start for start, _ in choices]
    for match in occurrences(pattern, text):
        # Where the group took no part both are negative.
        start, end = match.span("verdict" if "verdict" in match.re.groupindex else 1)
        before = bisect_right(starts, start)
        is_offered = before > 0 and end <= choices[before - 1][1]
        if start >= 0 and not is_offered:
            word = text[start:end].strip()
            yield PlacedVerdict(word, form.meaning(word), start, end)


def _actual_verdicts(text: str, verdicts: Sequence[PlacedVerdict]) -> tuple[PlacedVerdict, ...]:
    """The verdicts that are given, not explained by "PASS if …" or in a list of different ones."""
    lists: list[list[PlacedVerdict]] = []
    for one in verdicts:
        if lists and _is_next_item(text, lists[-1][-1], one):
            lists[-1].append(one)
        else:
            lists.append([one])
    actual = (
        listed
        for listed in lists
        if len({one.meaning for one in listed}) == 1
        and not any(_CONDITION.match(text, one.end) for one in listed)
    )
    return tuple(one for listed in actual for one in listed)


def _is_next_item(text: str, before: PlacedVerdict, one: PlacedVerdict) -> bool:
    """Whether two verdicts are items of a list, `one` right below `before`."""
    return text.count("\n", before.end, one.start) == 1 and all(
        _ITEM.fullmatch(text, text.rfind("\n", 0, said.start) + 1, said.start)
        for said in (before, one)
    )
