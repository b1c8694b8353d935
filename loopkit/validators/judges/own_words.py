"""A reviewer's own words: without quotes, code, and repeats of the question."""

from __future__ import annotations

from collections.abc import Sequence

from loopkit.text.markdown import with_line_feeds, without_fences


def own_words(messages: Sequence[str], echoes: Sequence[str] = ()) -> str:
    """The messages as one text in which only the reviewer's own words stand.

    `echoes` are texts that it was given, which some programs print again. Lines of quotes and of
    fenced code are empty; a message that is one fence and nothing else stands without it.
    """
    return "\n\n".join(_own_words(message, echoes) for message in messages)


def _own_words(message: str, echoes: Sequence[str]) -> str:
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
