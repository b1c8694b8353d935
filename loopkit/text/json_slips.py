"""Four slips of JSON that are mended: comments, single quotes, trailing commas, raw line breaks.

`json5` reads the mended values. It takes more than these slips, so that every token is looked at
first: what is left of JSON's own grammar is never guessed.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache

from loopkit.text.json_text import MAX_DEPTH, NoJson, parse_json

MOST_CHARS = 50_000
"""The characters that are mended in a text: `json5` takes about a second for them."""
MOST_VALUES = 1_000
"""The brackets and braces of a text at which a value is looked for."""

_ESCAPE = r"\\(?:[\"\\/bfnrt]|u[0-9a-fA-F]{4})"
_TOKEN = re.compile(
    rf"""
      (?P<blank>\s+)
    | (?P<comment>//[^\n]*+|/\*(?:[^*]|\*(?!/))*+\*/)
    | (?P<single>'(?:[^'\\\x00-\x09\x0b\x0c\x0e-\x1f]|{_ESCAPE}|\\')*+')
    | (?P<text>"(?:[^"\\\x00-\x09\x0b\x0c\x0e-\x1f]|{_ESCAPE})*+")
    | (?P<open>[{{\[])
    | (?P<close>[}}\]])
    | (?P<comma>,)
    | : | (?:true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?)(?![\w.+-])
    """,
    re.VERBOSE,
)
_SLIPS = {"comment": "comments", "single": "single quotes"}
_OPENING = re.compile(r"[{\[]")
_PART = re.compile(r'"(?:[^"\\]|\\.)*+"|[{}\[\]]')
MOST_CUT = 20
"""The parts of a value at its end of which the last whole one is looked for."""


@lru_cache(maxsize=16)
def mend(text: str) -> tuple[str, tuple[str, ...]]:
    """The text with strict JSON in place of values that had slips, and the names of the slips.

    A text that ends within a value is cut off, and stays as it is.
    """
    parts: list[str] = []
    slips: dict[str, None] = {}
    at = start = 0
    left = MOST_CHARS
    for _ in range(MOST_VALUES):
        opening = _OPENING.search(text, start)
        if opening is None:
            break
        start = opening.start()
        own: dict[str, None] = {}
        end = _end_of_value(text, start, own)
        if end > len(text):
            return text, ()
        left -= (end - start) if own else 0
        if own and end > start and left >= 0 and (mended := _read(text[start:end])):
            parts += [text[at:start], mended]
            slips |= own
            at = end
        start = max(end, start + 1)
    return "".join([*parts, text[at:]]), tuple(slips)


def _end_of_value(text: str, start: int, slips: dict[str, None]) -> int:
    """Where a value ends, whose slips are added to `slips`: at its start if it is no JSON, and
    beyond the text if that ends within it."""
    depth, position, after_comma = 0, start, False
    while position < len(text):
        token = _TOKEN.match(text, position)
        if token is None or depth > MAX_DEPTH:
            return start
        position, kind = token.end(), token.lastgroup
        if kind in _SLIPS:
            slips[_SLIPS[kind]] = None
        if kind in ("single", "text") and "\n" in token[0]:
            slips["line breaks in a text"] = None
        if kind == "close" and after_comma:
            slips["trailing commas"] = None
        if kind not in ("blank", "comment"):
            after_comma = kind == "comma"
        depth += (kind == "open") - (kind == "close")
        if depth == 0:
            return position
    return position + 1


def _read(written: str) -> str:
    """The JSON of a value with slips; empty where it has other faults, such as a key twice."""
    import json5  # noqa: PLC0415 - only an answer with slips needs it

    try:
        mended = json.dumps(json5.loads(written, strict=False, allow_duplicate_keys=False))
    except (ValueError, RecursionError):
        return ""
    return "" if isinstance(parse_json(mended), NoJson) else mended


def closed(text: str) -> str:
    """The text up to the last whole part of an object that is cut off, with its brackets closed.

    A text that does not end in an object stays as it is.
    """
    missing: list[str] = []
    parts: list[tuple[int, str]] = []
    for part in _PART.finditer(text, max(text.find("{"), 0)):
        if part[0] in "{[":
            missing.append("}" if part[0] == "{" else "]")
        elif part[0] in "}]" and missing:
            missing.pop()
        parts.append((part.end(), "".join(reversed(missing[-MAX_DEPTH:]))))
    for end, brackets in reversed(parts[-MOST_CUT:] if missing else ()):
        whole = f"{text[:end]}{brackets}"
        if not isinstance(parse_json(whole[whole.find("{") :]), NoJson):
            return whole
    return text
