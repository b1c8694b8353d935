"""The text of a file: offsets ↔ places, and problems that precede all YAML, such as encoding."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from functools import partial
from itertools import islice

from loopkit.document.problems import LINE_BREAK, Problem, Span
from loopkit.text import is_broken
from loopkit.values import Value

# Editors, and parts of the parser, take U+0085, U+2028 and U+2029 for line ends, YAML 1.2 does not.
# Nobody sees them, so they have to be escapes.
_FORBIDDEN = re.compile(
    # What is forbidden, not what is allowed: a class of 50,000 characters takes 5 ms to compile.
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]"
)
_REPORTED = 20
_SHOWN = 40
_DIRECTIVE = re.compile(r"(?:[ \t]*(?:#[^\r\n]*)?(?:\r\n|\r|\n))*+(%[^\r\n]*)")
_CONFLICT = re.compile(r"^(?:([<>|])\1{6}(?: [^\r\n]*)?|={7})(?=\r?$)", re.MULTILINE)


class SourceText(Value, frozen=True):
    """A text with its name and the offsets at which its lines start."""

    file: str
    text: str
    starts: tuple[int, ...]

    @classmethod
    def of(cls, text: str, file: str) -> SourceText:
        return cls(file, text, (0, *(found.end() for found in LINE_BREAK.finditer(text))))

    def span(self, start: int, end: int) -> Span:
        return Span(self.file, *self.position(start), *self.position(end))

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column, from 1."""
        line = bisect_right(self.starts, offset)
        return line, offset - self.starts[line - 1] + 1

    def offsets(self, span: Span) -> tuple[int, int]:
        """Where a place starts and ends."""
        start = self.starts[span.line - 1] + span.column - 1
        end = self.starts[span.end_line - 1] + span.end_column - 1
        return start, end

    def line_around(self, offset: int) -> tuple[int, str]:
        """The start of the line at `offset`, and the line without its break."""
        line, _ = self.position(offset)
        end = self.starts[line] if line < len(self.starts) else len(self.text)
        start = self.starts[line - 1]
        return start, self.text[start:end].rstrip("\r\n")


def obstacles(source: SourceText) -> list[Problem]:
    """What makes the text unreadable, whatever its YAML."""
    return [*_forbidden_characters(source), *_directives(source), *_conflicts(source)]


def _forbidden_characters(source: SourceText) -> Iterator[Problem]:
    # A picture has a million of them; the first few say it.
    for found in islice(_FORBIDDEN.finditer(source.text), _REPORTED):
        yield Problem(
            "forbidden-character",
            f"{describe(found.group())} is not allowed here",
            source.span(found.start(), found.end()),
            help="remove it; is this a text file?"
            if found.group() == "\0"
            else "remove it, or write it as an escape in a double-quoted text",
        )


def describe(char: str) -> str:
    """A name for a character that cannot be shown."""
    if is_broken(char):
        return f"half a surrogate pair (U+{ord(char):04X})"
    named = {"\0": "the NUL character", "\ufeff": "a byte order mark"}
    return f"{named.get(char, 'an invisible character')} (U+{ord(char):04X})"


def _directives(source: SourceText) -> Iterator[Problem]:
    """A problem for a line such as `%YAML 1.1` before everything else."""
    if found := _DIRECTIVE.match(source.text):
        message = f"the directive `{found[1].split()[0][:_SHOWN]}` is not supported"
        remedy = "delete the line; files are read as YAML 1.2, where `yes`, `no` and `on` are text"
        yield Problem("directive", message, source.span(*found.span(1)), help=remedy)


def _conflicts(source: SourceText) -> list[Problem]:
    """A problem for each merge conflict.

    A row of `=` counts only inside a conflict: alone, in a text, it may underline a title.
    """
    conflicts: list[list[Span]] = []
    inside = False
    for found in islice(_CONFLICT.finditer(source.text), _REPORTED):
        mark = found.group()[0]
        if inside and mark != "<":
            conflicts[-1].append(source.span(found.start(), found.end()))
        elif mark != "=":
            conflicts.append([source.span(found.start(), found.end())])
        inside = mark != ">" and (inside or mark != "=")
    message = "a merge conflict was left in the file"
    remedy = "keep one of the two sides and delete the marker lines"
    problem = partial(Problem, "conflict-marker", message, help=remedy)
    label = "of the same conflict"
    return [problem(first, also=tuple((label, one) for one in rest)) for first, *rest in conflicts]
