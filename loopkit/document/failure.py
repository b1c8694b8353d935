"""A syntax failure: the place where the parser gave up, and the text around it."""

from __future__ import annotations

from loopkit.document.problems import Span
from loopkit.document.text import SourceText
from loopkit.values import Value

TOO_DEEP = "brackets are nested too deep"
"""The reason when the parser was stopped because of that."""


class Failure(Value, frozen=True):
    """The parser's failure; the places are offsets in the text."""

    source: SourceText
    reason: str
    at: int
    context: str
    """The construct that it was reading; "" if unknown."""
    opened: int | None
    """The offset at which that started."""
    read_to: int
    """The end of the last value before."""
    quoted: tuple[int, int] | None
    """The last quoted text that it had read, with its quotes."""

    def char(self, offset: int | None) -> str:
        """Return the character at `offset`, "" at the end of the text."""
        return "" if offset is None else self.source.text[offset : offset + 1]

    def span(self, start: int, end: int | None = None) -> Span:
        """Return the place from `start` to `end`, or of one character.

        The end of the text is shown at its last line with anything on it: the parser often
        notices only there what went wrong before the blank lines.
        """
        start = min(start, len(self.source.text.rstrip()))
        default = min(start + 1, len(self.source.text))
        return self.source.span(start, default if end is None else max(start, end))

    def line_span(self, start: int) -> Span:
        """Return the place from `start` to the end of the text on its line."""
        return self.span(start, self.line_end(start))

    def line_end(self, offset: int) -> int:
        start, line = self.source.line_around(offset)
        return start + len(line.rstrip())

    def line_above(self, offset: int) -> int | None:
        """Return the start of the last line above that has more than blanks, if there is one."""
        start, _ = self.source.line_around(offset)
        above = len(self.source.text[:start].rstrip())
        return self.source.line_around(above)[0] if above else None

    def on_one_line(self, first: int, second: int) -> bool:
        return self.source.position(first)[0] == self.source.position(second)[0]
