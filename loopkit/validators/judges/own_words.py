"""A reviewer's own words: those that are read, and the end of them as a finding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from loopkit.text import end_of, printable
from loopkit.text.markdown import with_line_feeds, without_fences
from loopkit.text.patterns import PatternTimeout, occurrences
from loopkit.validators.answer import storable
from loopkit.validators.fault import Fault
from loopkit.validators.judges.findings import OWN_WORDS_CHARS
from loopkit.validators.judges.form import VerdictWord
from loopkit.validators.judges.text_findings import is_met
from loopkit.validators.judges.text_form import TextForm


def own_words(messages: Sequence[str], echoes: Sequence[str] = ()) -> str:
    """The messages as one text in which only the reviewer's own words stand.

    `echoes` are texts that it was given, which some programs print again. Lines of quotes and of
    fenced code are empty; a message that is one fence and nothing else stands without it.
    """
    return "\n\n".join(_stripped(message, echoes) for message in messages)


def _stripped(message: str, echoes: Sequence[str]) -> str:
    text = with_line_feeds(message)
    for echo in echoes:
        if given := with_line_feeds(echo).strip():
            text = text.replace(given, "")
    lines = without_fences(_unfenced(text)).split("\n")
    return "\n".join("" if line.lstrip().startswith(">") else line for line in lines)


def _unfenced(text: str) -> str:
    """The content of the one fence that a text consists of, else the text."""
    first, *inner = text.strip().split("\n")
    mark = first[:3]
    if mark not in ("```", "~~~") or len(inner) < 2 or inner[-1].strip() != mark:
        return text
    content = "\n".join(inner[:-1])
    return text if mark in content else content


def end_of_words(messages: Sequence[str], verdict: VerdictWord, form: TextForm) -> Fault:
    """What was said and is not met, as a finding: its end, after the lines before that fail."""
    whole = "\n\n".join(text for message in messages if (text := printable(message).strip()))
    try:
        said = _without_met(whole, form)
        end = end_of(said, OWN_WORDS_CHARS)
        said = end if end == said else "\n".join((*_failing(said, end, form), "…", end))
    except PatternTimeout:
        # The pattern is told of in the reason; the words count as they are.
        said = end_of(whole, OWN_WORDS_CHARS)
    level = form.levels.ungraded if verdict == "fail" else form.levels.advisory
    return Fault(storable(said), storable(said), severity=level, value=said, identified=False)


def _without_met(said: str, form: TextForm) -> str:
    """The text without the findings in it that say that all is well."""
    parts, kept = [], 0
    for match in occurrences(form.listed, said):
        if is_met(match, form):
            parts.append(said[kept : match.start()])
            kept = match.end()
    return "".join((*parts, said[kept:])).strip()


def _failing(said: str, end: str, form: TextForm) -> Iterator[str]:
    """The lines before the end in which something fails, in all no longer than the end may be."""
    before = said.removesuffix(end)
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
