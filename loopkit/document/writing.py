"""Writing values as YAML as a person would: long texts as blocks, short values on one line."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from loopkit.document.scalars import UnusableNumber, resolve

WIDTH = 100
"""Characters of a line; a text is not broken."""
# Compiled on first use, because `check` rarely writes anything.
_PLAIN = r"(?a)[A-Za-z_…][\w…/.+()%?!'-]*(?: [\w…/.+()%?!'-]+)*|\d+(?:\.\d+)?(?:ms|s|m|h)"
_ESCAPED = "[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]"
_UNFIT_FOR_BLOCK = "\\A[ \t\n]|[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]|[ \t]\\Z"


def to_yaml(value: Mapping[str, Any], indent: int = 0) -> str:
    """A mapping as lines of YAML, each behind `indent` blanks; reading it gives the same value."""
    pad = " " * indent
    return "".join(f"{pad}{line}\n" if line else "\n" for line in _mapping(value, indent))


def inline(value: Any) -> str:
    """A value on one line, as it may stand inside of brackets."""
    match value:
        case str():
            return value if _is_plain(value) else _quote(value)
        case Mapping():
            fields = (f"{inline(key)}: {inline(item)}" for key, item in value.items())
            return "{" + ", ".join(fields) + "}"
        case list() | tuple():
            return "[" + ", ".join(map(inline, value)) + "]"
        case _:
            return json.dumps(value)


def _is_plain(text: str) -> bool:
    if not re.fullmatch(_PLAIN, text) or text.lower() in _WORDS:
        return False
    try:
        return isinstance(resolve(text), str)
    except UnusableNumber:
        return False


_WORDS = frozenset({"yes", "no", "on", "off", "y", "n", "true", "false", "null"})
"""Words that some YAML readers do not read as text."""


def _quote(text: str) -> str:
    is_quiet = text.isprintable() and "'" not in text and not re.search(_ESCAPED, text)
    if is_quiet and ("\\" in text or '"' in text):
        return f"'{text}'"
    quoted = json.dumps(text, ensure_ascii=False)
    return re.sub(_ESCAPED, lambda found: f"\\u{ord(found[0]):04x}", quoted)


def _mapping(value: Mapping[str, Any], depth: int) -> Iterator[str]:
    for key, item in value.items():
        yield from _behind(f"{inline(key)}:", item, depth)


def _behind(head: str, value: Any, depth: int) -> Iterator[str]:
    """The lines of a value behind a key or a dash."""
    if isinstance(value, str) and "\n" in value and not re.search(_UNFIT_FOR_BLOCK, value):
        yield from _block_text(head, value)
        return
    if _is_line(head, value, depth):
        yield f"{head} {inline(value)}"
    elif head == "-":
        first, *rest = _indent(_below(value, depth + 2))
        yield from (f"- {first.lstrip()}", *rest)
    else:
        yield head
        yield from _indent(_below(value, depth + 2))


def _is_line(head: str, value: Any, depth: int) -> bool:
    if not value or not isinstance(value, Mapping | list | tuple):
        return True
    return not _has_blocks(value) and depth + len(f"{head} {inline(value)}") <= WIDTH


def _below(value: Mapping[str, Any] | Sequence[Any], depth: int) -> Iterator[str]:
    """The lines of a collection."""
    if isinstance(value, Mapping):
        yield from _mapping(value, depth)
        return
    for item in value:
        yield from _behind("-", item, depth)


def _block_text(head: str, text: str) -> Iterator[str]:
    body = text.rstrip("\n")
    ends = len(text) - len(body)
    yield f"{head} |" + ("-", "", "+")[min(ends, 2)]
    yield from _indent([*body.split("\n"), *([""] * (ends - 1))])


def _indent(lines: Iterable[str]) -> Iterator[str]:
    return (f"  {line}" if line else "" for line in lines)


def _has_blocks(value: Any) -> bool:
    """Whether a value reads badly on one line: texts of many lines, collections in collections."""
    match value:
        case str():
            return "\n" in value
        case Mapping():
            is_nested = len(value) > 1 and any(map(_is_filled, value.values()))
            return is_nested or any(map(_has_blocks, value.values()))
        case list() | tuple():
            return any(map(_has_blocks, value))
        case _:
            return False


def _is_filled(value: Any) -> bool:
    return isinstance(value, Mapping | list | tuple) and bool(value)
