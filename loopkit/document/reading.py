"""Reading a file, or its text, into a document."""

from __future__ import annotations

import os
from pathlib import Path

from loopkit.document.compose import compose
from loopkit.document.document import Document
from loopkit.document.mistakes import MAX_BYTES, mistake
from loopkit.document.problems import Problem, ProblemsFound, Span
from loopkit.document.text import SourceText, obstacles


def read(text: str, file: str) -> Document:
    """Return the document that `text` is; `file` names it in messages.

    The text is YAML 1.2 with a mapping at the root, at most 1,000,000 bytes, 64 levels and
    200,000 keys and values with aliases expanded. Anchors, aliases and merge keys work; tags,
    directives and several documents do not. Raises `ProblemsFound`.
    """
    if len(text) > MAX_BYTES or len(text.encode(errors="replace")) > MAX_BYTES:
        raise ProblemsFound([mistake("too-large", _start_of(file))])
    source = SourceText.of(text.removeprefix("\ufeff"), file)
    found = obstacles(source)
    if found:
        raise ProblemsFound(found)
    return compose(source)


def read_file(path: Path, shown_as: str | None = None) -> Document:
    """Return the document in the file, UTF-8 with or without a byte order mark, as `read` does.

    `shown_as` names it in messages instead of its path. Raises `ProblemsFound`, also where the
    file cannot be read or is too large.
    """
    # A name with bytes that are no UTF-8 could be neither printed nor kept.
    file = os.fsencode(shown_as or path).decode(errors="backslashreplace")
    try:
        with path.open("rb") as stream:
            content = stream.read(MAX_BYTES + 1)
    except IsADirectoryError as error:
        problem = _unreadable(file, "it is a folder", "name a file in it")
        raise ProblemsFound([problem]) from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        problem = _unreadable(file, reason, "check its name and permissions")
        raise ProblemsFound([problem]) from error
    if len(content) > MAX_BYTES:
        raise ProblemsFound([mistake("too-large", _start_of(file))])
    return read(decode(content, file), file)


def decode(content: bytes, file: str) -> str:
    """Return UTF-8 content as text; raises `ProblemsFound` at the first byte that is none."""
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        utf_16 = content.startswith((b"\xff\xfe", b"\xfe\xff"))
        reason = "it looks like UTF-16" if utf_16 else f"byte 0x{content[error.start]:02x}"
        before = SourceText.of(content[: error.start].decode("utf-8").removeprefix("\ufeff"), file)
        end = len(before.text)
        raise ProblemsFound([mistake("not-utf-8", before.span(end, end), reason=reason)]) from error


def _unreadable(file: str, reason: str, remedy: str) -> Problem:
    return mistake("unreadable-file", _start_of(file), reason=reason, remedy=remedy)


def _start_of(file: str) -> Span:
    return Span(file, 1, 1, 1, 1)
