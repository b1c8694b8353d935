"""A text that somebody edits on a page: every line that they leave alone stays exactly as it was.

A page shows lines without control characters, and browsers give back every end of a line as they
like. So the returned text is compared, line by line, with the text that was shown.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from loopkit.text import printable
from loopkit.text.line_diff import equal_lines

_LINE = re.compile(r"([^\r\n]*)(\r\n|\r|\n|$)")
"""A line as browsers see it, and what ends it."""


class _Line(NamedTuple):
    text: str
    end: str


def plain_ends(text: str) -> str:
    """A text as browsers edit it: every end of a line is a line feed."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def editable(text: str) -> str:
    """A text in the form in which a page offers it for editing."""
    return "\n".join(printable(line.text) for line in _lines(text))


def apply_edit(text: str, typed: str) -> str:
    """The text after its editable form was changed to `typed`."""
    lines = _lines(text)
    shown = [printable(line.text) for line in lines]
    now = plain_ends(typed).split("\n")
    kept = {
        block.b + at: block.a + at for block in equal_lines(shown, now) for at in range(block.size)
    }
    ends = Counter(line.end for line in lines if line.end)
    end = ends.most_common(1)[0][0] if ends else "\n"
    made: list[str] = []
    for at, line in enumerate(now):
        was = lines[kept[at]] if at in kept else _Line(line, "")
        made.append(was.text)
        if at + 1 < len(now):
            line_end = was.end or end
            # The LF of an empty line would join the CR before it, and two ends would be one.
            would_join = line_end == "\n" and not was.text and made[-2:-1] == ["\r"]
            made.append("\r" if would_join else line_end)
    return "".join(made)


def _lines(text: str) -> Sequence[_Line]:
    """The lines of a text; the last one has no end, and is empty behind the end of another."""
    found = [_Line(*match.groups()) for match in _LINE.finditer(text)]
    # Behind the last line, the pattern finds its end once more.
    return found if not found[-2:-1] or found[-2].end else found[:-1]
