"""The size of text in a drawing, never less than what a browser needs, whatever its font is.

No font is measured: the widths are those of the widest common ones (DejaVu, Verdana).
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

NARROW = frozenset("iljtfrI.,:;'|!()[]{} ·-/\\\"`")
WIDE = frozenset("mwMW@%")
WIDTHS = {"narrow": 0.52, "usual": 0.76, "wide": 1.12}
"""Of a bold letter, in units of the font's size."""
MONOSPACED = 0.615
EAST_ASIAN, OTHER = 1.12, 0.95


@dataclass(frozen=True, slots=True)
class Style:
    """How a line of text is set."""

    size: float
    """Of the font, in pixels."""
    leading: float
    """From line to line, in pixels."""
    is_code: bool = False
    """Whether the font is monospaced."""

    def width(self, line: str) -> float:
        """Of one line, in pixels."""
        return self.size * sum(map(self._char, line))

    def height(self, lines: Sequence[str]) -> float:
        return self.leading * len(lines)

    def _char(self, char: str) -> float:
        if char.isascii():
            return MONOSPACED if self.is_code else WIDTHS[_class(char)]
        if unicodedata.combining(char):
            return 0.0
        return EAST_ASIAN if unicodedata.east_asian_width(char) in "WF" else OTHER


def _class(char: str) -> str:
    return "narrow" if char in NARROW else "wide" if char in WIDE else "usual"
