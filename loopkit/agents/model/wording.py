"""The words of a server's error, without what the server and LiteLLM wrap around them."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from typing import Any

DEEPEST = 4
"""Levels in which servers wrap an error; deeper ones are not read."""
_HTML = re.compile(r"<(!doctype|html|head|body)\b", re.IGNORECASE)
_TITLE = re.compile(r"<title>(.{0,500}?)</title>", re.IGNORECASE | re.DOTALL)
_WRAPPING = re.compile(r"\s*(litellm\.)?\w*(Error|Exception|Timeout)( \w*Error)?(:| -)\s*")
_ADVICE = re.compile(
    r"\s*(\. Handle with `litellm|\. To drop these|\. Check the reverse proxy"
    r"|\.? ?Give Feedback / Get Help|Traceback \(most).*"
)


def text_of(response: Any) -> str:
    """The body of an HTTP response; empty where it was not read."""
    with suppress(Exception):
        return str(response.text)
    return ""


def core_of(text: str) -> object:
    """The innermost record of an error in a body, else the text itself."""
    with suppress(ValueError, RecursionError):
        return innermost(json.loads(text))
    return text


def innermost(body: object) -> object:
    """The record of an error without the records around it."""
    for _ in range(DEEPEST):
        match body:
            case [inner, *_] | {"error": inner} | {"detail": inner} if inner:
                body = inner
            case {"message": dict() | list() as inner} if inner:
                body = inner
            case _:
                break
    return body


def words(core: object) -> str:
    """What the core of an error says; empty where it does not say it in words."""
    match core:
        case {"message": str() as message, "metadata": {"raw": str() as raw}} if raw:
            # OpenRouter's own words say only that another provider failed.
            return f"{message}: {words(core_of(raw)) or raw}"
        case {"message": str() as message, "param": str() as param} if param not in message:
            return f"{param}: {message}"
        case {"msg": str() as message, "loc": list() as steps}:
            return f"{'.'.join(map(str, steps))}: {message}"
        case {"message": str() as message} | {"msg": str() as message}:
            return message
        case str() as text if _HTML.search(text):
            title = _TITLE.search(text)
            return f"an HTML page: {title[1].strip()}" if title else "an HTML page"
        case str() as text:
            return text
        case _:
            return ""


def codes(core: object) -> frozenset[str]:
    """`code` and `type` of the core of an error."""
    if not isinstance(core, dict):
        return frozenset()
    return frozenset(code for key in ("code", "type") if isinstance(code := core.get(key), str))


def unwrap(text: str) -> str:
    """The text without the class names and the advice that LiteLLM wraps it in."""
    text = text.split("\nTraceback", 1)[0]
    start = 0
    while wrapped := _WRAPPING.match(text, start):
        start = wrapped.end()
    return _ADVICE.sub("", " ".join(text[start:].split()))
