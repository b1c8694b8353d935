"""Reading files: documents, front matter of Markdown, texts beside a machine file."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from loopkit.document.document import Document, Node
from loopkit.document.parser import Builder, ParserGaveUp
from loopkit.document.problems import (
    MAX_BYTES,
    Problem,
    ProblemsFound,
    Span,
    mistake,
    place_of,
    render,
)
from loopkit.document.text import SourceText, obstacles
from loopkit.values import Value


def read(text: str, file: str, *, any_root: bool = False) -> Document:
    """The document that `text` is; `file` names it in messages.

    The text is YAML 1.2 with a mapping at the root, or with `any_root` anything, at most 1,000,000
    bytes, 64 levels and 200,000 keys and values with aliases expanded. Anchors, aliases and merge
    keys work; tags, directives and several documents do not. Raises `ProblemsFound`.
    """
    if len(text) > MAX_BYTES or len(text.encode(errors="replace")) > MAX_BYTES:
        raise ProblemsFound([mistake("too-large", _start_of(file))])
    source = SourceText.of(text.removeprefix("\ufeff"), file)
    found = obstacles(source)
    if found:
        raise ProblemsFound(found)
    builder = Builder(source)
    try:
        root = builder.document()
    except ParserGaveUp as stop:
        from loopkit.document.syntax import explain  # noqa: PLC0415 - few files have such a mistake

        problem = explain(builder, stop)
        others = (one for one in builder.problems if place_of(one) != place_of(problem))
        raise ProblemsFound([*others, problem]) from stop
    found = [one for one in builder.problems if not any_root or one.code != "not-a-mapping"]
    if found:
        raise ProblemsFound(found)
    return Document(source.file, source.text, root)


def why_unread(found: ProblemsFound) -> str:
    """The first problem, with its line, for a sentence."""
    problem = found.problems[0]
    return problem.message + (f" at line {problem.span.line}" if problem.span else "")


def read_file(path: Path, shown_as: str | None = None) -> Document:
    """The document in the file, UTF-8 with or without a byte order mark, as `read` does.

    `shown_as` names it in messages instead of its path. Raises `ProblemsFound`, also where the
    file cannot be read or is too large.
    """
    # A name with bytes that are no UTF-8 could be neither printed nor kept.
    file = os.fsencode(shown_as or path).decode(errors="backslashreplace")
    return read(decode(read_bytes(path, file), file), file)


def text_of(file: str) -> str:
    """What a reader is shown of a file that problems name; empty where it can't be read."""
    try:
        with open(file, encoding="utf-8-sig", errors="replace") as stream:
            # The problem may be that it has no end.
            return stream.read(MAX_BYTES)
    except (OSError, ValueError):
        # Standard input, or a file that was removed: the place is shown without its line.
        return ""


def render_found(problems: Sequence[Problem], columns: int | None = None) -> str:
    """The problems as `render` prints them, with the lines of their files as they are now."""
    files = {problem.span.file for problem in problems if problem.span is not None}
    return render(problems, {file: text_of(file) for file in files}, columns)


def read_bytes(path: Path, file: str) -> bytes:
    """What is in a file; raises `ProblemsFound`."""
    try:
        with path.open("rb") as stream:
            content = stream.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        remedy = "check its name and permissions"
        if isinstance(error, IsADirectoryError):
            reason = "it is a folder"
            remedy = "name a file in it"
        problem = mistake("unreadable-file", _start_of(file), reason=reason, remedy=remedy)
        raise ProblemsFound([problem]) from error
    if len(content) > MAX_BYTES:
        raise ProblemsFound([mistake("too-large", _start_of(file))])
    return content


def decode(content: bytes, file: str) -> str:
    """UTF-8 as text; raises `ProblemsFound` at the first byte that is none."""
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        utf_16 = content.startswith((b"\xff\xfe", b"\xfe\xff"))
        reason = "it looks like UTF-16" if utf_16 else f"byte 0x{content[error.start]:02x}"
        before = SourceText.of(content[: error.start].decode("utf-8").removeprefix("\ufeff"), file)
        end = len(before.text)
        raise ProblemsFound([mistake("not-utf-8", before.span(end, end), reason=reason)]) from error


def _start_of(file: str) -> Span:
    return Span(file, 1, 1, 1, 1)


_MARK = re.compile(r"^---[ \t]*$", re.MULTILINE)
_NOTHING = re.compile(r"(?:[ \t]*(?:#[^\n]*)?\n)*+")


class FrontMatter(Value, frozen=True):
    """A Markdown file in its two parts."""

    keys: Document | None
    """None where the file does not start with a line `---`."""
    body: str
    """The text that follows, without blank lines around it; its lines end in LF."""
    line: int
    """The line of the file in which the body starts."""


def read_front_matter(text: str, file: str) -> FrontMatter:
    """The parts of a text; `file` names it in messages. Raises `ProblemsFound`."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    first = _MARK.match(text)
    last = _MARK.search(text, first.end()) if first is not None else None
    keys, at = None, 0
    if first is not None and last is not None:
        # With the line end before it, its lines have their numbers.
        yaml, at = text[first.end() : last.start()], last.end()
        empty = Document(file, yaml, Node(Span(file, 1, 1, 1, 4), {}, None, "block"))
        keys = empty if _NOTHING.fullmatch(yaml) else read(yaml, file)
    elif first is not None:
        place = Span(file, 1, 1, 1, first.end() + 1)
        remedy = "close it with a line `---`, after which the text starts"
        problem = Problem("front-matter", "the front matter has no end", place, "", remedy)
        raise ProblemsFound([problem])
    body = text[at:].strip("\n")
    start = text.index(body, at)
    return FrontMatter(keys, body.rstrip(), text.count("\n", 0, start) + 1)


class Included(Value, frozen=True):
    file: str
    text: str
    digest: str
    line: int = 1
    """The line of the text in which the included part starts."""


class CannotInclude(Exception):
    """A file that cannot be included; the message says why."""

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(message)
        self.remedy = remedy


def _outside(relative: str) -> CannotInclude:
    message = f"`{relative}` lies outside the folder of the machine file"
    return CannotInclude(message, "move it beside the machine file, or below")


def list_files(folder: Path, relative: str, suffix: str) -> list[Path]:
    """The files with this suffix in a folder, by name; raises CannotInclude if there are none."""
    root = folder.resolve()
    try:
        place = (root / relative).resolve()
        found = sorted(place.iterdir()) if place.is_relative_to(root) else None
    except (OSError, ValueError, RuntimeError) as error:
        raise CannotInclude(
            f"there is no folder `{relative}`", "paths start at the folder of this file"
        ) from error
    if found is None:
        raise _outside(relative)
    files = [Path(relative, path.name) for path in found if path.suffix == suffix]
    if not files:
        raise CannotInclude(f"`{relative}` has no file `*{suffix}`", "name a folder that has some")
    return files


def read_included(folder: Path, relative: str) -> str:
    """The text of a file in a folder, symlinks resolved; raises CannotInclude."""
    root = folder.resolve()
    try:
        path = (root / relative).resolve()
        is_inside, is_folder = path.is_relative_to(root), path.is_dir()
        data = path.read_bytes() if is_inside and path.is_file() else None
    except (OSError, ValueError, RuntimeError) as error:
        # Links in a circle are a RuntimeError before Python 3.13.
        reason = error.strerror if isinstance(error, OSError) else error
        raise CannotInclude(f"`{relative}` can't be read: {reason}", "") from error
    if not is_inside:
        raise _outside(relative)
    if is_folder:
        raise CannotInclude(f"`{relative}` is a folder, not a file", "name a file in it")
    if data is None:
        remedy = "paths start at the folder of this file"
        raise CannotInclude(f"there is no file `{relative}`", remedy)
    if len(data) > MAX_BYTES:
        raise CannotInclude(f"`{relative}` is larger than 1 MB", "split it")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise CannotInclude(f"`{relative}` is not UTF-8 text", "save it as UTF-8") from error
