"""Front matter: the YAML between two lines `---` at the start of a Markdown file."""

from __future__ import annotations

import re

from loopkit.document.document import Document, Node
from loopkit.document.problems import Problem, ProblemsFound, Span
from loopkit.document.reading import read
from loopkit.values import Value

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
    if first is None:
        return _front_matter(None, text, 0)
    last = _MARK.search(text, first.end())
    if last is None:
        place = Span(file, 1, 1, 1, first.end() + 1)
        remedy = "close it with a line `---`, after which the text starts"
        raise ProblemsFound(
            [Problem("front-matter", "the front matter has no end", place, "", remedy)]
        )
    return _front_matter(_keys(text[first.end() : last.start()], file), text, last.end())


def _keys(yaml: str, file: str) -> Document:
    """The text between the marks, after a line end that keeps its line numbers right."""
    if _NOTHING.fullmatch(yaml):
        return Document(file, yaml, Node(Span(file, 1, 1, 1, 4), {}, None, "block"))
    return read(yaml, file)


def _front_matter(keys: Document | None, text: str, at: int) -> FrontMatter:
    rest = text[at:]
    body = rest.strip("\n")
    start = at + rest.index(body)
    return FrontMatter(keys, body.rstrip(), text.count("\n", 0, start) + 1)
