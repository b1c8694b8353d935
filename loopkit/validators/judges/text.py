"""Verdicts in text: verdict and findings of a review that is not a report in JSON."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

from loopkit.engine.findings import Finding
from loopkit.language.machine import NO_FINDING
from loopkit.language.template.rendering import parse
from loopkit.language.validators.report_map import VerdictReading
from loopkit.text import end_of, fold, printable, shorten
from loopkit.text.markdown import list_items, with_line_feeds, without_fences
from loopkit.text.patterns import PatternTimeout, occurrences
from loopkit.validators.judges.form import (
    MAX_LINE,
    OWN_WORDS_CHARS,
    AnswerForm,
    Doubt,
    Opinion,
    VerdictWord,
    identify,
    noting,
    quote,
    unmet_criteria,
    words_for,
)
from loopkit.values import Value, field

if TYPE_CHECKING:
    from regex import Match


def read_text(
    validator: str, messages: Sequence[str], form: TextForm, echoes: Sequence[str]
) -> Opinion:
    """The opinion that a reviewer gives in its messages.

    Raises Doubt where no verdict can be read, and PatternTimeout.
    """
    text = "\n\n".join(_own_words(message, echoes) for message in messages)
    verdicts = find_verdicts(text, form)
    chosen = choose_verdict(verdicts, form)
    verdict = verdicts[chosen].meaning
    assert verdict is not None
    doubts: list[str] = []
    found: list[PlacedFinding] = []
    with noting(doubts):
        for match in occurrences(form.listed, text):
            found.append(_read(match, verdict, form, doubts))
    if form.reading.take in ("last", "first"):
        found = select_findings(found, verdicts, chosen)
    findings = [one.finding for one in found if one.finding.severity != NO_FINDING]
    if verdict != "fail" and form.reading.findings is None:
        ends = [one.end for one in verdicts]
        starts = [one.start for one in verdicts]
        near = text[[0, *ends][chosen] : [*starts, len(text)][chosen + 1]]
        words = dict.fromkeys(match[1] for match in _CAPITALS.finditer(near))
        doubts += (
            form.unknown_word(word) for word in words if fold(word) not in form.levels_by_word
        )
    with noting(doubts):
        if not found and verdict != "pass" and form.reading.findings is None:
            findings = _points_beside(text, verdicts, chosen, form)
    facts: Sequence[Finding] = ()
    with noting(doubts):
        if verdict == "pass":
            facts = _unmet_criteria(validator, text, form)
    return Opinion(
        verdict=verdict,
        word=quote(verdicts[chosen].word),
        findings=identify(validator, findings, form),
        facts=facts,
        doubts=doubts,
        words="" if findings or verdict == "pass" else end_of_words(messages, form),
    )


def _unmet_criteria(validator: str, text: str, form: TextForm) -> tuple[Finding, ...]:
    counts = form.reading.counts
    if counts is None:
        return ()
    numbers = [_number(text, form.pattern(one)) for one in (counts.met, counts.checked)]
    if numbers == ["null", "null"]:
        return ()
    for number, what in zip(numbers, ("met", "checked"), strict=True):
        if not number.isdecimal() or len(number) > 9:
            raise Doubt(f"It does not say how many criteria are {what}.")
    return unmet_criteria(validator, int(numbers[0]), int(numbers[1]), form)


def _number(text: str, pattern: str) -> str:
    """What a pattern finds last; empty where it finds nothing."""
    last = deque(occurrences(pattern, text), maxlen=1)
    return (last[0][1] or "").strip() if last else ""


DEFAULT_WORDS: Mapping[str, VerdictWord] = {"PASS": "pass", "WARN": "warn", "FAIL": "fail"}

_MARKS = r"(?:[^\w\n`>\"“?]|_)*+"
"""What may surround a verdict: bullets, emphasis, colons, signs. Not `>`, which quotes."""
_STAMP = r"(?:\[[^\]\n]{1,40}\][ \t]*+|\d[\d:.,/TZ+-]*+[ \t]++){0,3}"
_BEFORE = (
    r"(?:(?:here(?:[’']s|[ ]is)|the|my|our|this|final|overall|task|review|reviewer(?:[’']s)?"
    r"|validation|validator|verification)[ \t]+){0,4}+"
)
_LABEL = rf"^[ \t]*+{_STAMP}{_MARKS}{_STAMP}{_BEFORE}verdict\b"
_SIGN = r"(?:(?:(?:[^\w\n>\"“]|_)*+[\"“])*+(?:[^\w\n>\"“:=]|_)*+[:=]|(?:[^\w\n>]|_)*?[ \t]is\b)"
"""A colon behind which nothing is quoted, or "is"."""
LABELLED = (
    rf"(?i){_LABEL}(?:"
    rf"{_SIGN}(?:[^\w\n>\"“]|_)*+(?P<verdict>WORDS|(?>\w+(?:-\w+)*))"
    rf"|(?:[^\w\n]|_)*+(?P<verdict>WORDS)"
    rf"|(?:[^\w\n]|_)*+\n\s*+{_MARKS}(?P<verdict>WORDS))"
)
"""A line of its own with `Verdict` and a word, or such a heading with the word below."""
BARE = rf"(?i)^(?![ \t]*+(?:[-+*•]|\d+[.)])[ \t]){_MARKS}(?P<verdict>WORDS)(?:[^\w\n`\"?]|_)*$"
"""A line that holds nothing but a word."""
LISTED = (
    r"(?i)^[ \t]*+(?:\d+[.)][ \t]++)?(?:[^\w\n`>\[|]|_)*+\[[*_]*(?P<severity>WORDS)[*_]*\]"
    r"(?:[^\w\n`\[(/.]|_)*(?P<message>\S.*(?:\n[ \t]{2,}+(?![-+*•]|\d+[.)])\S.*)*)$"
)
"""`- [FAIL] text`; indented lines below continue the text."""
_BETWEEN = r"(?:[^\w\n/|,\\]|_)*+"
CHOICE = (
    rf"(?i)WORDS(?:(?:{_BETWEEN}(?:[/|,\\]|\b(?:or|and|vs)\b))++{_BETWEEN}"
    rf"\n?{_BETWEEN}(?:verdict\b{_BETWEEN})?WORDS)+"
)
"""Words to choose from, with what separates them; a line may end after its "or" or comma."""
IN_MESSAGE = (
    r"(?<![\w/.@+~-])(?P<file>(?:[\w.@+~-]+[/\\])+[\w.@+-]+|[\w@+-][\w.@+-]*\.[A-Za-z]\w{0,7})"
    r":(?P<line>\d{1,9})(?!\w)"
)
"""A file and a line of it, as in `src/plan.py:12`."""

_FORM = """\
Answer in plain text, without a code fence around it.

{% if listed is none %}
Name each finding on a line of its own that starts with a dash and a word in square brackets, \
then the file and line if there are any, and what is wrong and what is expected instead:

- [{{ example }}] src/example.txt:12: what is wrong there
{% else %}
Name each finding so that this regular expression finds it: {{ listed }}
{% endif %}

{% if grades and severe %}
- {{ severe }} as the word of a finding: it has to be corrected.
{% endif %}
{% if grades and mild %}
- {{ mild }} as the word of a finding: it should be.
{% endif %}

{% if counts %}
Say how many criteria you checked and how many are met, so that these regular expressions find \
the numbers: {{ counts.checked }} and {{ counts.met }}

{% endif %}
{% if pattern is none %}
The last line gives your verdict: "Verdict:" and one of the words {{ words }}.
{% else %}
Give your verdict so that this regular expression finds it, with one of the words {{ words }}: \
{{ pattern }}
{% endif %}

{% if fails %}
- {{ fails }}: something has to be corrected; at least one finding says what.
{% endif %}
{% if warns %}
- {{ warns }}: nothing has to be, but something should; at least one finding says what.
{% endif %}
{% if passes %}
- {{ passes }}: nothing is wrong.
{% endif %}"""


class TextForm(AnswerForm, frozen=True, kw_only=True, dict=True):
    reading: VerdictReading = field(default_factory=VerdictReading)
    patterns: Mapping[str, str] = field(default_factory=dict)
    """The machine's patterns, by name."""

    @property
    def words(self) -> Mapping[str, VerdictWord]:
        return self.reading.words or DEFAULT_WORDS

    def pattern(self, written: str) -> str:
        """A pattern of the reading, which names one of the machine or is one itself."""
        return self.patterns.get(written, written)

    @cached_property
    def listed(self) -> str:
        if self.reading.findings is not None:
            return self.pattern(self.reading.findings)
        return _with_words(LISTED, self.levels_by_word)

    @cached_property
    def meanings(self) -> Mapping[str, VerdictWord]:
        return {fold(word): meant for word, meant in self.words.items()}

    @cached_property
    def levels_by_word(self) -> Mapping[str, str]:
        """The severity that each word of a finding stands for; `none` is not a finding."""
        own = {level: level for level in self.levels.levels}
        known = {**own, **self.levels.of_verdicts(self.words), **self.reading.severities}
        return {fold(word): level for word, level in known.items()}

    def unknown_word(self, word: str) -> str:
        known = dict.fromkeys((*self.words, *self.reading.severities, *self.levels.levels))
        choices = ", ".join(map(quote, known))
        return f"A finding has the word {quote(word[:60])}, which is none of {choices}."

    @cached_property
    def failing(self) -> str:
        words = (word for word, meant in self.words.items() if meant == "fail")
        return f"(?i){_any_of((*words, *self.levels.severe))}"

    @property
    def instructions(self) -> str:
        reading, levels = self.reading, self.levels
        # Where every finding rejects, there is nothing to warn of.
        offered = {w: meant for w, meant in self.words.items() if meant != "warn" or levels.mild}
        words = {**offered, **reading.severities, **{level: level for level in levels.levels}}
        findings = reading.findings
        pattern = reading.pattern
        counts = reading.counts
        return parse(_FORM).render(
            {
                "listed": None if findings is None else self.pattern(findings),
                "grades": findings is None or "(?P<severity>" in self.pattern(findings),
                "example": next(
                    (word for word, meant in words.items() if meant == "fail"), levels.worst
                ),
                "severe": words_for(words, "fail", *levels.severe),
                "mild": words_for(words, "warn", *levels.mild),
                "counts": counts
                and {"met": self.pattern(counts.met), "checked": self.pattern(counts.checked)},
                "pattern": None if pattern is None else self.pattern(pattern),
                "words": ", ".join(f'"{word}"' for word in offered),
                "fails": words_for(offered, "fail"),
                "warns": words_for(offered, "warn"),
                "passes": words_for(offered, "pass"),
            }
        )

    def missing_error(self, names_any: bool) -> str:
        return "no finding says what has to be corrected. Name it in the form of a finding"

    def unwanted_error(self, named: str) -> str:
        return f"a finding says that something has to be corrected: {named}. Make them agree."


def _with_words(pattern: str, words: Iterable[str]) -> str:
    """The pattern with these words in place of WORDS."""
    return pattern.replace("WORDS", _any_of(words))


def _any_of(words: Iterable[str]) -> str:
    """A pattern for whole words; the longest first, because one may begin like another."""
    import regex  # noqa: PLC0415 - costs 40 ms, most commands need none

    listed = sorted({word.strip() for word in words if word.strip()}, key=len, reverse=True)
    # An underscore may be emphasis; inside a longer word it is not.
    return rf"(?<![^\W_]_*)(?:{'|'.join(map(regex.escape, listed))})(?!\w*[^\W_]|-\w)"


def _own_words(message: str, echoes: Sequence[str]) -> str:
    """The message with only the reviewer's own words.

    `echoes` are texts that it was given, which some programs print again. Lines of quotes and of
    fenced code become empty; a message that is nothing but one fence loses it.
    """
    text = with_line_feeds(message)
    for echo in echoes:
        if printed := with_line_feeds(echo).strip():
            text = text.replace(printed, "")
    lines = without_fences(_without_fence(text)).split("\n")
    return "\n".join("" if line.lstrip().startswith(">") else line for line in lines)


def _without_fence(text: str) -> str:
    """The content of the one fence that a text consists of, else the text."""
    first, *inner = text.strip().split("\n")
    mark = first[:3]
    if mark not in ("```", "~~~") or len(inner) < 2 or inner[-1].strip() != mark:
        return text
    content = "\n".join(inner[:-1])
    return text if mark in content else content


def end_of_words(messages: Sequence[str], form: TextForm) -> str:
    """The end of the words, without what is met, after earlier lines that fail."""
    words = "\n\n".join(said for message in messages if (said := printable(message).strip()))
    # Where a pattern takes too long, the reason names it, and the words count as they are.
    with suppress(PatternTimeout):
        parts, kept = [], 0
        for match in occurrences(form.listed, words):
            if form.levels_by_word.get(fold(_group(match, "severity"))) == NO_FINDING:
                parts.append(words[kept : match.start()])
                kept = match.end()
        words = "".join((*parts, words[kept:])).strip()
    end = end_of(words, OWN_WORDS_CHARS)
    before = words.removesuffix(end)
    fails = []
    room = OWN_WORDS_CHARS
    with suppress(PatternTimeout):
        for line in before.split("\n") if before else ():
            if len(line) < room and next(occurrences(form.failing, line), None):
                fails.append(line)
                room -= len(line) + 1
    return "\n".join((*fails, "…", end)) if before else end


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
    found = list(_matching_verdicts(_with_words(LABELLED, form.words), text, form))
    if labelled := _actual_verdicts(text, found):
        return labelled
    bare = tuple(_matching_verdicts(_with_words(BARE, form.words), text, form))
    if len({said.meaning for said in bare}) > 1:
        # Each may be the verdict on a part.
        words = " and ".join(dict.fromkeys(quote(said.word) for said in bare))
        raise Doubt(f"{words} stand alone on a line each. Give one verdict, as `Verdict: WORD`.")
    return bare


def choose_verdict(verdicts: Sequence[PlacedVerdict], form: TextForm) -> int:
    """The index of the verdict that counts; raises Doubt where there is none or it is not clear."""
    if not verdicts:
        raise Doubt(f"It holds no verdict: none of {_words(form)} where a verdict stands.")
    take = form.reading.take
    chosen = 0 if take == "first" else len(verdicts) - 1
    compares = take in ("unique", "strictest")
    for one in verdicts if compares else verdicts[chosen : chosen + 1]:
        if one.meaning is None:
            raise Doubt(f"Its verdict is {quote(one.word[:60])}, which is none of {_words(form)}.")
    if take == "unique" and len({one.meaning for one in verdicts}) > 1:
        words = " and ".join(dict.fromkeys(quote(one.word) for one in verdicts))
        raise Doubt(f"It gives several verdicts: {words}. Give exactly one.")
    if take == "strictest":
        strictest = [BY_STRICTNESS.index(one.meaning) for one in verdicts if one.meaning]
        chosen = chosen - strictest[::-1].index(max(strictest))
    return chosen


def _words(form: TextForm) -> str:
    return ", ".join(map(quote, form.words))


def _matching_verdicts(pattern: str, text: str, form: TextForm) -> Iterator[PlacedVerdict]:
    choices = [match.span() for match in occurrences(_with_words(CHOICE, form.words), text)]
    starts = [start for start, _ in choices]
    for match in occurrences(pattern, text):
        # Where the group took no part both are negative.
        start, end = match.span("verdict" if "verdict" in match.re.groupindex else 1)
        before = bisect_right(starts, start)
        is_offered = before > 0 and end <= choices[before - 1][1]
        if start >= 0 and not is_offered:
            word = text[start:end].strip()
            yield PlacedVerdict(word, form.meanings.get(fold(word)), start, end)


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


class PlacedFinding(Value, frozen=True):
    at: int
    finding: Finding
    """Its severity is a level, or `none` where the line reports a success."""
    meaning: VerdictWord


def select_findings(
    listed: Sequence[PlacedFinding], said: Sequence[PlacedVerdict], chosen: int
) -> list[PlacedFinding]:
    """The findings that belong to the chosen one of several verdicts.

    If findings come before the first verdict, each verdict follows its findings; else it precedes
    them. A verdict without any has those before it that do not go with the other verdict beside
    them.
    """
    parts: list[list[PlacedFinding]] = [[] for _ in range(len(said) + 1)]
    starts = [verdict.start for verdict in said]
    for one in listed:
        parts[bisect_left(starts, one.at)].append(one)
    is_below = not parts[0]
    near = [*parts[chosen + 1]] if is_below else [*parts[chosen]]
    if not is_below and chosen == len(said) - 1:
        near += parts[chosen + 1]
    for at in range(chosen, -1, -1):
        near = near or [one for one in parts[at] if not _is_of_another(one, said, at, chosen)]
    return near


def _is_of_another(one: PlacedFinding, said: Sequence[PlacedVerdict], at: int, chosen: int) -> bool:
    """Whether a finding goes with a verdict beside it that means something else than the chosen.

    A verdict goes with findings that are as strict, or milder.
    """
    beside = {said[near].meaning for near in (at - 1, at) if 0 <= near < chosen}
    milder = BY_STRICTNESS[: BY_STRICTNESS.index(one.meaning)]
    return one.meaning != said[chosen].meaning and bool(
        beside - {said[chosen].meaning} - set(milder)
    )


_CAPITALS = re.compile(
    r"^[ \t]*(?:[-+*•]|\d+[.)])[ \t]+[*_]*\[[*_]*([A-Z]{3,})[*_]*\](?!\()", re.MULTILINE
)
"""A word in capital letters where a finding has its own; unknown, it may be a severity."""
MAX_POINTS = 50
_MARKER = re.compile(r"[ \t]*(?:[-+*]|\d+[.)])[ \t]+(?:\[([ xX✓✔])\][ \t]+)?")
"""The start of an item, and what stands in its box."""


def _points_beside(
    text: str, said: Sequence[PlacedVerdict], chosen: int, form: TextForm
) -> list[Finding]:
    """The points below a verdict, else those above it, as findings; and what else is said there.

    Where there are no points there is no finding.
    """
    # Lines that hold a verdict belong to neither side; `%` makes the end of a missing line end.
    ends = [0, *(text.find("\n", one.end) % (len(text) + 1) for one in said)]
    starts = [*(text.rfind("\n", 0, one.start) + 1 for one in said), len(text)]
    above = text[ends[chosen] : starts[chosen]]
    below = text[ends[chosen + 1] : starts[chosen + 1]]
    points, rest = _points_in(below, form)
    words, levels = f"{above}\n{rest}", form.levels
    if not points:
        points, rest = _points_in(above, form)
        words = f"{rest}\n{below}"
    level = form.default_level(said[chosen].meaning)
    found = []
    for message in points:
        file, line = _place_in(message)
        found.append(Finding(id="", message=message, severity=level, location=file, line=line))
    if found and levels.mild and (words := end_of(words.strip(), OWN_WORDS_CHARS)):
        # With a key, because the text of an earlier round is not another finding.
        key = "the rest of the review"
        found.append(Finding(id="", message=words, severity=levels.advisory, key=key))
    return found


def _points_in(text: str, form: TextForm) -> tuple[list[str], str]:
    """The items of lists that report no success, and the rest of the text.

    Where items have items of their own, these are meant; the ones above them say what they share.
    A success has a tick, or begins or ends with a word that passes, as that is written.
    """
    text = re.sub(r"^([ \t]*)•", r"\1-", text, flags=re.MULTILINE)
    lines, items = text.split("\n"), list_items(text)
    passing = {"✅", "✓", "✔", *(word for word, meant in form.words.items() if meant == "pass")}
    is_met: dict[int, bool] = {}
    points: list[tuple[int, int, int]] = []
    for item, after in pairwise((*items, (0, 0, 0))):
        start, _, depth = item
        marker = _MARKER.match(lines[start])
        said = re.findall(r"\w+|[✅✓✔]", lines[start][marker.end() :] if marker else "")
        is_ticked = marker is not None and marker[1] not in (None, " ")
        passes = is_ticked or not passing.isdisjoint((*said[:1], *said[-1:]))
        is_met[depth] = passes or (depth > 0 and is_met.get(depth - 1, False))
        if said and after[2] <= depth and not is_met[depth]:
            points.append(item)
    meant = [one for one in points if one[2]] or points
    taken = {at for start, end, _ in meant[:MAX_POINTS] for at in range(start, end)}
    found = ["\n".join(lines[start:end]) for start, end, _ in meant[:MAX_POINTS]]
    messages = [shorten(" ".join(_MARKER.sub("", f, 1).split()), OWN_WORDS_CHARS) for f in found]
    return messages, "\n".join(line for at, line in enumerate(lines) if at not in taken).strip()


def _read(
    match: Match[str], verdict: VerdictWord, form: TextForm, doubts: list[str]
) -> PlacedFinding:
    """A finding, also one that is met; with a word that nobody knows, it blocks.

    `verdict` replaces the severity where the pattern has no such group.
    """
    message = " ".join((_group(match, "message") or match.group()).split())
    word, levels = _group(match, "severity"), form.levels
    level = form.default_level(verdict)
    if not message:
        doubts.append(f"The finding {quote(match.group().strip()[:60])} says nothing.")
        level = NO_FINDING
    elif word:
        level = form.levels_by_word.get(fold(word), "")
    if not level:
        doubts.append(form.unknown_word(word))
        level = levels.ungraded
    file, line = _place(match, message)
    finding = Finding(
        id="",
        message=message,
        location=file,
        line=line,
        severity=level,
        code=_group(match, "code"),
        key=_group(match, "key"),
    )
    rejects = level != NO_FINDING and levels.is_severe(level)
    meaning: VerdictWord = "fail" if rejects else "pass" if level == NO_FINDING else "warn"
    return PlacedFinding(match.start(), finding, meaning)


def _place(match: Match[str], message: str) -> tuple[str, int | None]:
    """The file and the line that a finding names, in groups or in its message."""
    file, line = _group(match, "file"), _group(match, "line")
    return _numbered(file, line) if file or line else _place_in(message)


def _place_in(message: str) -> tuple[str, int | None]:
    """The first file with a line of it that a message names."""
    found = next(occurrences(IN_MESSAGE, message), None)
    return _numbered(found["file"], found["line"]) if found else ("", None)


def _numbered(file: str, line: str) -> tuple[str, int | None]:
    number = int(line) if line.isdecimal() and len(line) < 10 else 0
    return file, number if 1 <= number <= MAX_LINE else None


def _group(match: Match[str], name: str) -> str:
    """The text of a named group; empty where the pattern has no such group, or it took no part."""
    return (match[name] or "").strip() if name in match.re.groupindex else ""
