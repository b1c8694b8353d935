"""Edited texts: what a page changed; and transcripts."""

from __future__ import annotations

import json
import re
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher, unified_diff
from typing import Any

from loopkit.text import printable

_LINE_END = re.compile(r"(\r\n|\r|\n)")
"""The ends of lines as browsers see them, which give each back as they like."""
_OFTEN = 50
"""How often a line may come and still be looked for; to try all pairs of one takes too long."""


def plain_ends(text: str) -> str:
    """A text as browsers edit it: every end of a line is a line feed."""
    return _LINE_END.sub("\n", text)


def editable(text: str) -> str:
    """A text in the form in which a page offers it for editing."""
    return "\n".join(map(printable, plain_ends(text).split("\n")))


def apply_edit(text: str, typed: str) -> str:
    """The text after its editable form became `typed`; lines left alone stay exactly as they were.

    A new line ends as most lines do.
    """
    parts = _LINE_END.split(text)
    lines, ends = parts[::2], [*parts[1::2], ""]
    usual = Counter(ends[:-1] or ["\n"]).most_common(1)[0][0]
    now = plain_ends(typed).split("\n")
    made, times = [(line, usual) for line in now], Counter(now)
    matcher = SequenceMatcher(
        lambda line: times[line] > _OFTEN, list(map(printable, lines)), now, autojunk=False
    )
    for was, at, size in matcher.get_matching_blocks():
        for index in range(size):
            made[at + index] = (lines[was + index], ends[was + index] or usual)
    told: list[str] = []
    for line, end in made:
        # The LF of an empty line would join the CR before it, and two ends would be one.
        would_join = not line and end == "\n" and told[-1:] == ["\r"]
        told += (line, "\r" if would_join else end)
    return "".join(told[:-1])


def changed_lines(before: Sequence[str], after: Sequence[str], context: int = 3) -> list[str]:
    """The changes from some lines to others as `diff -u` prints them, without the heading."""
    return list(unified_diff(before, after, lineterm="", n=context))[2:]


Event = Mapping[str, Any]
ROLES = ("assistant", "user", "system", "tool")


def events_of(transcript: str) -> Iterator[Event]:
    """The JSON objects of a text, one a line, or of the one list or object that it is."""
    transcript = transcript.removeprefix("\ufeff")
    if transcript.lstrip().startswith(("[", "{")) and (whole := _value(transcript)) is not None:
        listed = whole if isinstance(whole, list) else [whole]
        yield from (event for event in listed if isinstance(event, dict))
        return
    # Not `splitlines`: it also splits at separators that JSON leaves as they are in texts.
    for line in transcript.split("\n"):
        # Programs print other lines between; they are no part of the transcript.
        event = _value(line)
        if isinstance(event, dict):
            yield event


def _value(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def messages_of(printed: str) -> tuple[str, ...]:
    """The messages of the assistant; a text that is not a transcript is one message."""
    events = list(events_of(printed))
    is_transcript = any(_role(event) or event.get("type") == "result" for event in events)
    return assistant_texts(events) if is_transcript else (printed,)


def result_of(events: Iterable[Event]) -> Event:
    """The last event of the type `result`; empty where there is none."""
    last = deque((event for event in events if event.get("type") == "result"), maxlen=1)
    return last[0] if last else {}


def failure_in(event: Event) -> str:
    """Why a program failed, as its last record says; empty if it does not say that it failed."""
    subtype = str(event.get("subtype") or "")
    says_so = event.get("is_error") is True or event.get("status") == "error" or event.get("error")
    if not (says_so or subtype.startswith("error")):
        return ""
    named = "" if subtype == "success" else subtype
    return ": ".join(filter(None, (named, _reason(event)))) or "it gives no reason"


def _reason(value: object, depth: int = 3) -> str:
    """The words of a failure: a text, some, or the first under one of the usual keys."""
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, list) and depth:
        return "; ".join(filter(None, (_reason(each, depth - 1) for each in value)))
    if not isinstance(value, dict) or not depth:
        return ""
    words = (_reason(value.get(key), depth - 1) for key in ("errors", "error", "result", "message"))
    return next(filter(None, words), "")


def assistant_texts(events: Iterable[Event]) -> tuple[str, ...]:
    """The messages of the assistant, each whole and none blank; its result comes last.

    What tools gave back, what users wrote and what an assistant of the assistant wrote is left
    out, and so is what an assistant thinks or hands to a tool.
    """
    listed = list(events)
    texts = [text for text in _joined_messages(listed) if text.strip()]
    result = result_of(listed).get("result")
    is_more = isinstance(result, str) and result.strip() not in ("", *map(str.strip, texts))
    return (*texts, str(result)) if is_more else tuple(texts)


def _joined_messages(events: Iterable[Event]) -> Iterator[str]:
    """The messages of the assistant; the pieces of one have its id, or follow as `delta`."""
    pieces: dict[tuple[str, object], list[str]] = {}
    interruptions = 0
    for number, event in enumerate(events):
        # An event of a sub-agent names the call of the tool that started it.
        if event.get("parent_tool_use_id") is not None:
            continue
        if _role(event) == "assistant":
            message = _message(event)
            key: tuple[str, object] = ("event", number)
            if isinstance(message.get("id"), str):
                key = ("id", message["id"])
            elif event.get("delta") is True:
                key = ("delta", interruptions)
            pieces.setdefault(key, []).append(_text(message.get("content")))
        elif _role(event) or str(event.get("type")).startswith("tool"):
            interruptions += 1
    return map("".join, pieces.values())


def _message(event: Event) -> Event:
    message = event.get("message", event)
    return message if isinstance(message, dict) else {}


def _role(event: Event) -> str:
    role = _message(event).get("role", event.get("type"))
    return role if role in ROLES else ""


def _text(content: object) -> str:
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else []
    texts = (b.get("text") for b in blocks if isinstance(b, dict) and b.get("type") == "text")
    return "".join(text for text in texts if isinstance(text, str))
