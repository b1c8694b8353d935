"""A reviewer's own words: the part that is read, and its end as a finding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from loopkit.text import end_of, printable
from loopkit.text.markdown import with_line_feeds, without_fences
from loopkit.text.patterns import PatternTimeout, occurrences
from loopkit.validators.fault import Fault
from loopkit.validators.judges.findings import OWN_WORDS_CHARS
from loopkit.validators.judges.form import VerdictWord
from loopkit.validators.judges.text_findings import is_met
from loopkit.validators.judges.text_form import TextForm


def own_words(messages: Sequence[str], echoes: Sequence[str] = ()) -> str:
    """The messages as one text that holds only the reviewer's own words.

    `echoes` are texts that it was given, which some programs print again. Lines of quotes and of
    fenced code become empty; a message that is nothing but one fence loses it.
    """
    return "\n\n".join(_own_part(message, echoes) for message in messages)


def _own_part(message: str, echoes: Sequence[str]) -> str:
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


def end_of_words(messages: Sequence[str], verdict: VerdictWord, form: TextForm) -> Fault:
    """The end of the words as a finding, without what is met, after earlier lines that fail."""
    whole = "\n\n".join(text for message in messages if (text := printable(message).strip()))
    try:
        words = _without_met(whole, form)
        end = end_of(words, OWN_WORDS_CHARS)
        words = end if end == words else "\n".join((*_failing_lines(words, end, form), "…", end))
    except PatternTimeout:
        # The reason names the pattern; the words count unfiltered.
        words = end_of(whole, OWN_WORDS_CHARS)
    level = form.levels.ungraded if verdict == "fail" else form.levels.advisory
    return Fault(words, words, severity=level, value=words, identified=False)


def _without_met(text: str, form: TextForm) -> str:
    """The text without those of its findings that report a success."""
    parts, kept = [], 0
    for match in occurrences(form.listed, text):
        if is_met(match, form):
            parts.append(text[kept : match.start()])
            kept = match.end()
    return "".join((*parts, text[kept:])).strip()


def _failing_lines(text: str, end: str, form: TextForm) -> Iterator[str]:
    """The lines before the end in which something fails, in all no longer than the end may be."""
    before = text.removesuffix(end)
    room, seen = OWN_WORDS_CHARS, 0
    for match in occurrences(form.failing, before):
        if match.start() < seen:
            continue
        start = before.rfind("\n", seen, match.start()) + 1 or seen
        seen = before.find("\n", match.end()) + 1 or len(before)
        line = before[start:seen].rstrip("\n")
        if len(line) < room:
            room -= len(line) + 1
            yield line
