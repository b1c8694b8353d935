"""Transcripts in JSON, as lines or as one list: the messages of the assistant."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

Event = Mapping[str, Any]
ROLES = ("assistant", "user", "system", "tool")


def events_of(transcript: str) -> Iterator[Event]:
    """The JSON objects of a text, one a line, or of the one list that it is."""
    if transcript.lstrip().startswith("["):
        listed = _value(transcript)
        if isinstance(listed, list):
            yield from (event for event in listed if isinstance(event, dict))
            return
    # Not `splitlines`: it also splits at separators that JSON leaves as they are in texts.
    for line in transcript.split("\n"):
        # Programs print other lines between; they are no part of the transcript.
        event = _value(line)
        if isinstance(event, dict):
            yield event


def _value(text: str) -> object:
    """The JSON value of a text; none if it is not JSON."""
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
    found: Event = {}
    for event in events:
        found = event if event.get("type") == "result" else found
    return found


def assistant_texts(events: Iterable[Event]) -> tuple[str, ...]:
    """The messages of the assistant, without blank ones; its result comes last.

    What tools gave back, what users wrote and what an assistant of the assistant wrote is left
    out, and so is what an assistant thinks or hands to a tool.
    """
    listed = list(events)
    texts = [text for event in listed if (text := _assistant_text(event)).strip()]
    result = result_of(listed).get("result")
    is_more = isinstance(result, str) and result.strip() not in ("", *(t.strip() for t in texts))
    return (*texts, str(result)) if is_more else tuple(texts)


def _assistant_text(event: Event) -> str:
    # An event of a sub-agent names the call of the tool that started it.
    if event.get("parent_tool_use_id") is not None:
        return ""
    return _text(_message(event).get("content")) if _role(event) == "assistant" else ""


def _message(event: Event) -> Event:
    message = event.get("message", event)
    return message if isinstance(message, dict) else {}


def _role(event: Event) -> str:
    """The author of a message, if the event is one."""
    role = _message(event).get("role", event.get("type"))
    return role if role in ROLES else ""


def _text(content: object) -> str:
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else []
    return "".join(
        block["text"]
        for block in blocks
        if isinstance(block, dict)
        and block.get("type") == "text"
        and isinstance(block.get("text"), str)
    )
